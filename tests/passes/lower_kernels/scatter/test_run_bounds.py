"""Where the runs of ids in order begin and end, as the interpreter counts."""

from typing import Any

import numpy as np
import pytest

from tests.support.lower_fixture import Run, check_all, forms_of, fused_kernel, same_values
from tests.support.opencl_fixture import cl_queue  # noqa: F401
from tests.support.spirv_fixture import also_as_spirv  # noqa: F401


@pytest.mark.usefixtures("also_as_spirv")
def test_runs_of_ids_in_order_are_found_by_bisection(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    random = np.random.default_rng(3)
    for ids in ("i32", "i64"):
        for shape, axis, places in (
            ((100,), 0, 31), ((3, 40), 1, 64), ((17, 16), 0, 5), ((1,), 0, 3), ((0,), 0, 4),
            ((2, 65), 1, 200),
        ):  # fmt: skip
            values = np.sort(random.integers(-2, places + 3, shape), axis)
            kernel = fused_kernel(
                "pointwise",
                [(ids, shape)],
                lambda b, x, a=axis, n=places: b.run_bounds(x, n, axis=a),
            )
            runs += forms_of(kernel, [values.astype(ids.replace("i", "int"))], f"{ids} {shape}")
    check_all(cl_queue, runs, same_values)
