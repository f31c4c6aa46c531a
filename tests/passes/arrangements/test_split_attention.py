"""Attention of few rows as two kernels: the same values, and work for all of the device.

The reference is the wide interpreter on the kernel before it was cut, and the bound on attention's
error that the whole one is held to.
"""

from typing import Any

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import DEVICES
from mgn.dialects.types import ELEMENT_TYPES, element_of
from mgn.passes.schedules.choose import schedule_for
from tests.passes.arrangements.test_split_reductions import values_of
from tests.passes.lower_kernels.attention.attention_reference import (
    attention_arrays,
    bounded_attention,
)
from tests.support.lower_fixture import (
    CPU,
    GPU_ON_CPU,
    expected,
    fused_kernel,
    lowered,
    pieces,
    run,
)
from tests.support.opencl_fixture import cl_queue  # noqa: F401

H200 = DEVICES["nvidia-h200"]
EAGER = H200.with_figures(launch_cost=0.0)
"""A device that makes launches for nothing."""

Shapes = list[tuple[int, ...]]


def attention(shapes: Shapes, element: str = "f32", **how: Any) -> FusedKernelOp:
    return fused_kernel(
        "attention", [(element, shape) for shape in shapes], lambda b, *x: b.attention(*x, **how)
    )


def decoding(keys: int, heads: int, kv_heads: int, size: int, queries: int = 1) -> Shapes:
    return [(1, queries, heads * size), *[(1, keys, kv_heads * size)] * 2]


def test_few_rows_over_many_keys_are_cut() -> None:
    first, second = pieces(attention(decoding(8192, 9, 3, 64), heads=9, kv_heads=3))
    assert [first.kernel_kind, second.kernel_kind] == [KernelKind.ATTENTION, KernelKind.REDUCTION]
    assert first.outputs[0].type.get_shape() == (64, 1, 1, 9, 66)  # type: ignore
    batch = pieces(attention([(8, 1, 1024), *[(8, 4096, 256)] * 2], heads=8, kv_heads=2))
    assert batch[0].outputs[0].type.get_shape() == (32, 8, 1, 8, 130)  # type: ignore
    few = pieces(attention(decoding(512, 9, 9, 64), heads=9))
    assert few[0].outputs[0].type.get_shape() == (8, 1, 1, 9, 66)  # type: ignore
    for keys, parts in ((256, 4), (257, 5), (384, 6), (1000, 16), (1024, 16), (4096, 32)):
        short = pieces(attention(decoding(keys, 9, 9, 64), heads=9))
        assert short[0].outputs[0].type.get_shape() == (parts, 1, 1, 9, 66)  # type: ignore


def test_others_are_left_alone() -> None:
    for kernel in (
        attention([(4, 2048, 256)] * 3, heads=4),
        attention(decoding(192, 9, 3, 64), heads=9, kv_heads=3),
        attention([(64, 1, 1024), *[(64, 4096, 1024)] * 2], heads=16),
        attention(decoding(8192, 4, 4, 64), heads=4, causal=True, window=512),
    ):
        assert pieces(kernel) == [kernel]
    kernel = attention(decoding(8192, 9, 3, 64), heads=9, kv_heads=3)
    assert pieces(kernel, CPU) == [kernel]


CASES: dict[str, tuple[Shapes, dict[str, Any]]] = {
    "shared keys": (decoding(700, 6, 2, 8), {"heads": 6, "kv_heads": 2}),
    "causal, some parts unseen": (
        decoding(640, 2, 2, 12, 600),
        {"heads": 2, "causal": True, "scale": 0.7},
    ),
    "queries that see no key": (decoding(520, 1, 1, 8, 530), {"heads": 1, "causal": True}),
    "a bias and another size of values": (
        [(2, 3, 16), (2, 520, 16), (520, 40), (2, 1, 520)],
        {"heads": 2, "softcap": 2.0},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_pieces_compute_what_the_kernel_did(
    name: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    shapes, how = CASES[name]
    arrays = attention_arrays(shapes, np.float32, 5)
    kernel = attention(shapes, **how)
    (want,) = expected(kernel, arrays)
    known = dict(zip(kernel.inputs, arrays, strict=True))
    made = pieces(kernel, EAGER)
    assert len(made) == 2
    (got,) = values_of(made, arrays)
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
    for part in made:
        outputs = run(cl_queue, part, [known[value] for value in part.inputs], GPU_ON_CPU)
        known.update(zip(part.outputs, outputs, strict=True))
    bounded_attention(*arrays, **how).check(known[made[-1].outputs[0]])


def test_a_cpu_has_no_template_for_parts() -> None:
    first, _ = pieces(attention(decoding(8192, 9, 3, 64), heads=9, kv_heads=3))
    with pytest.raises(VerifyException, match="on a GPU only"):
        lowered(first, CPU)


def test_what_follows_joins_the_second_kernel_or_becomes_a_third() -> None:
    shapes = [*decoding(1024, 2, 1, 16), (1, 1, 32)]
    types = [("f32", shape) for shape in shapes]
    options = {"heads": 2, "kv_heads": 1}
    added = fused_kernel(
        "attention", types, lambda b, q, k, v, x: b.add(x, b.attention(q, k, v, **options))
    )
    assert [part.kernel_kind for part in pieces(added, EAGER)] == ["attention", "reduction"]
    turned = fused_kernel(
        "attention",
        types[:3],
        lambda b, q, k, v: b.reshape(b.attention(q, k, v, **options), [1, 2, 16]),
    )
    made = pieces(turned, EAGER)
    assert [part.kernel_kind for part in made] == ["attention", "reduction", "pointwise"]


def test_parts_of_half_precision_are_kept_in_f32_and_stay_on_the_unit() -> None:
    for element in ("bf16", "f16"):
        kernel = attention(decoding(8192, 16, 2, 64), element, heads=16, kv_heads=2)
        first, second = pieces(kernel)
        assert element_of(first.outputs[0].type).name == "f32"
        assert element_of(second.outputs[0].type) is ELEMENT_TYPES[element]
        assert schedule_for(first, H200).values["matrix"] == element
