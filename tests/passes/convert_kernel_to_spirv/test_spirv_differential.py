"""The differential tests of lowered kernels once more, with the kernels as SPIR-V."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.passes.lower_kernels.attention.test_attention_kernels import (
    test_attention_computes_what_the_interpreter_does,  # noqa: F401
    test_nan_and_infinity_pass_as_in_the_interpreter,  # noqa: F401
    test_other_element_types_are_computed_wide_and_rounded_once,  # noqa: F401
)
from tests.passes.lower_kernels.order.test_order import (
    test_rows_of_any_shape_are_sorted,  # noqa: F401
    test_runs_in_order_are_merged_stably,  # noqa: F401
    test_values_of_any_element_type_are_sorted_stably,  # noqa: F401
)
from tests.passes.lower_kernels.product.test_products import (
    test_a_convolution_is_a_matmul_read_through_an_index_map,  # noqa: F401
    test_a_matmul_of_any_element_type_is_right,  # noqa: F401
    test_a_matmul_of_any_shape_is_right,  # noqa: F401
    test_a_matmul_takes_prologues_and_epilogues,  # noqa: F401
)
from tests.passes.lower_kernels.recurrence.test_recurrence_kernels import (
    test_a_kernel_walks_all_steps,  # noqa: F401
)
from tests.passes.lower_kernels.scan.test_scans import (
    test_parts_begin_with_what_is_given_for_them,  # noqa: F401
    test_scans_of_any_element_type_are_right,  # noqa: F401
)
from tests.passes.lower_kernels.scatter.test_scatter import (
    test_ids_in_order_say_what_is_scattered_where,  # noqa: F401
    test_numbers_of_any_element_type_are_added,  # noqa: F401
    test_runs_of_ids_in_order_are_found_by_bisection,  # noqa: F401
)
from tests.passes.lower_kernels.test_differential import (
    test_a_cast_truncates_saturates_or_wraps,  # noqa: F401
    test_a_reduction_computes_what_the_interpreter_does,  # noqa: F401
    test_a_scan_is_the_running_sum,  # noqa: F401
    test_an_elementwise_operation_computes_what_the_interpreter_does,  # noqa: F401
    test_dependent_reductions_share_one_kernel,  # noqa: F401
    test_gather_clamps_ids_into_the_axis,  # noqa: F401
    test_iota_and_full_are_constants_of_their_type,  # noqa: F401
    test_movement_copies_the_right_elements,  # noqa: F401
    test_softmax_down_columns,  # noqa: F401
    test_special_floats_pass_as_the_interpreter_says,  # noqa: F401
    test_where_chooses_elements_with_broadcasting,  # noqa: F401
)
from tests.passes.lower_kernels.test_lower_random import (
    test_random_contractions,  # noqa: F401
    test_random_pointwise_bodies,  # noqa: F401
    test_random_reductions,  # noqa: F401
    test_random_scans,  # noqa: F401
)
from tests.support import lower_fixture
from tests.support.opencl_fixture import build_unoptimised, cl_queue, unoptimised  # noqa: F401
from tests.support.spirv_fixture import need_spirv, validated_signatures


@pytest.fixture(autouse=True, scope="module")
def on_spirv(cl_queue: Any) -> Iterator[None]:  # noqa: F811
    """Lowered kernels are run as SPIR-V that the Khronos validator accepts."""
    need_spirv(cl_queue)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lower_fixture, "signatures", validated_signatures)
        yield


@pytest.fixture(autouse=True)
def random_ones_are_optimised(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those kernels show what an optimiser makes of the words; the others say what they mean."""
    if not request.node.name.startswith("test_random"):
        build_unoptimised(monkeypatch)
