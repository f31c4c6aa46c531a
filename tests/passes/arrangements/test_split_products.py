"""Products of few tiles as two kernels: the same values, and work for all of the device.

The reference is the wide interpreter on the kernel before it was cut.
"""

import random
from math import inf
from typing import Any

import numpy as np
import pytest

from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel import DEVICES, CopyChunkOp
from mgn.dialects.types import element_of
from mgn.passes.arrangements.split_products import MOST, SHORTEST, SplitProduct
from mgn.passes.saturate.arrange_kernels import template_of
from mgn.passes.saturate.candidates.arranging import Arranger
from mgn.passes.saturate.egraph.view import Signature, View
from mgn.passes.saturate.prices import arrangements
from mgn.passes.schedules.choose import schedule_for
from tests.passes.arrangements.test_split_reductions import values_of
from tests.passes.lower_kernels.test_differential import draw
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
Shapes = list[tuple[int, ...]]


def product(a: tuple[int, ...], b: tuple[int, ...], element: str = "f32", **turned: bool) -> Any:
    return fused_kernel(
        "contraction", [(element, a), (element, b)], lambda e, x, y: e.matmul(x, y, **turned)
    )


def parts_of(kernels: list[FusedKernelOp]) -> int:
    return kernels[0].outputs[0].type.get_shape()[0] if len(kernels) > 1 else 1  # type: ignore


def rounded(e: Any, x: Any, y: Any) -> Any:
    return e.matmul(e.round_tf32(x), e.round_tf32(y))


def prices(kernel: FusedKernelOp, parts: int | None = None) -> tuple[float, float]:
    """What a kernel takes as one, and cut in so many parts, or in those that are chosen."""
    device, signatures = H200.with_figures(), list[Signature]()  # nothing is known of this device
    template, values = template_of(kernel, device, signatures)
    assert template is not None
    choose = arrangements.choose_parts if parts is None else lambda _: parts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrangements, "choose_parts", choose)
        ways = Arranger(View({}, [], signatures), device).ways(template, values)
    cut = [way.price for way in ways if isinstance(way.arrangement, SplitProduct)]
    return template.price, min(cut, default=inf)


@pytest.mark.parametrize("seed", range(16))
def test_no_other_number_of_equal_parts_takes_less(seed: int) -> None:
    """To 2 %: the kernel that adds parts up is priced roughly where parts are chosen."""
    rng = random.Random(seed)
    rows, columns = (int(2 ** rng.uniform(3, 12)) for _ in range(2))
    depth = int(2 ** rng.uniform(8, 15)) // 64 * 64
    shapes = [("f32", (rows, depth)), ("f32", (depth, columns))]
    build = rounded if seed % 2 else lambda e, x, y: e.matmul(x, y)
    chosen = min(prices(fused_kernel("contraction", shapes, build)))
    for parts in range(2, MOST + 1):
        length, rest = divmod(depth, parts)
        if rest == 0 and length % 4 == 0 and length >= SHORTEST:
            whole, cut = prices(fused_kernel("contraction", shapes, build), parts)
            assert chosen <= 1.02 * min(whole, cut), parts


def test_products_of_few_tiles_and_a_long_shared_axis_are_cut() -> None:
    for a, b in (
        ((64, 20000), (20000, 1000)),
        ((128, 16384), (16384, 256)),
        ((4, 32, 16384), (16384, 64)),
        ((196, 2304), (2304, 256)),  # as those of convolutions of 14 x 14 places
        ((64, 2048), (2048, 64)),
        ((128, 1536), (1536, 576)),
    ):
        assert parts_of(pieces(product(a, b))) > 4


def test_products_whose_last_groups_would_be_few_are_cut() -> None:
    """As those of gradients of weights, and of inputs of an embedding's products."""
    for a, b in (((1536, 4096), (4096, 576)), ((4096, 49152), (49152, 576))):
        assert parts_of(pieces(product(a, b))) > 1


def test_others_are_left_alone() -> None:
    for kernel in (
        product((4096, 576), (576, 49152)),
        product((64, 500), (500, 64)),
        product((64, 20011), (20011, 64)),
        product((20000,), (20000, 64)),
    ):
        assert pieces(kernel) == [kernel]
    kernel = product((64, 20000), (20000, 1000))
    assert pieces(kernel, CPU) == [kernel]


BODIES: dict[str, tuple[Shapes, Any]] = {
    "plain": ([(20, 4096), (4096, 12)], lambda e, x, y: e.matmul(x, y)),
    "turned": (
        [(4096, 20), (12, 4096)],
        lambda e, x, y: e.matmul(x, y, transpose_a=True, transpose_b=True),
    ),
    "batches": ([(2, 1, 5, 4096), (3, 4096, 6)], lambda e, x, y: e.matmul(x, y)),
    "reshaped twice, with a bias": (
        [(20, 4096), (4096, 12), (12,)],
        lambda e, x, y, z: e.add(
            e.reshape(e.reshape(e.matmul(x, y), [4, 5, 12]), [10, 2, 1, 12]), z
        ),
    ),
    "rounded, with a bias and a scale before": (
        [(20, 4112), (4112, 12), (12,)],
        lambda e, x, y, z: e.relu(e.add(e.matmul(e.round_tf32(e.mul(x, 0.5)), e.round_tf32(y)), z)),
    ),
}


@pytest.mark.parametrize("name", BODIES)
def test_the_pieces_compute_what_the_kernel_did(
    name: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    shapes, build = BODIES[name]
    arrays = [draw("f32", shape, number) for number, shape in enumerate(shapes)]
    kernel = fused_kernel("contraction", [("f32", shape) for shape in shapes], build)
    (want,) = expected(kernel, arrays)
    known = dict(zip(kernel.inputs, arrays, strict=True))
    made = pieces(kernel)
    assert [part.kernel_kind for part in made] == [KernelKind.CONTRACTION, KernelKind.REDUCTION]
    (got,) = values_of(made, arrays)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-10)
    for part in made:
        outputs = run(cl_queue, part, [known[value] for value in part.inputs], GPU_ON_CPU)
        known.update(zip(part.outputs, outputs, strict=True))
    found = known[made[-1].outputs[0]]
    assert np.abs(found - want).max() <= 1e-5 * np.abs(want).max()


def test_partial_sums_of_half_precision_are_kept_in_f32() -> None:
    kernel = product((16, 8192), (8192, 16), "bf16")
    first, second = pieces(kernel)
    assert element_of(first.outputs[0].type).name == "f32"
    assert element_of(second.outputs[0].type).name == "bf16"
    assert schedule_for(first, H200).values["matrix"] == "bf16"


def test_parts_of_operands_are_still_copied_past_the_registers() -> None:
    kernel = fused_kernel(
        "contraction",
        [("f32", (64, 4096)), ("f32", (256, 4096))],
        lambda e, x, y: e.matmul(e.round_tf32(x), e.round_tf32(y), transpose_b=True),
    )
    copies = [op for op in lowered(pieces(kernel)[0], H200).walk() if isinstance(op, CopyChunkOp)]
    assert copies and {op.count.value.data for op in copies} == {4}
