"""Products of windows whose channels are last: rows are packed window by window on a CPU."""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mgn.dialects.fusion import FusedKernelOp
from mgn.passes.kernels.body import read_body
from mgn.passes.kernels.product import Product
from mgn.passes.lower_kernels.product import packed_product
from mgn.passes.lower_kernels.staging.window_rows import windows_in_vectors
from tests.support.lower_fixture import CPU, expected, fused_kernel, run, scheduled
from tests.support.opencl_fixture import cl_queue  # noqa: F401


def convolution(
    image: tuple[int, ...],
    filters: int,
    sizes: list[int],
    pads: list[tuple[int, int]],
    steps: list[tuple[int, int]],
    padding: float = 0.0,
    element: str = "f32",
) -> FusedKernelOp:
    """A convolution of what is computed of an image with its channels last, and what follows."""
    axes, channels = len(sizes), image[-1]
    strides, apart = ([pair[side] for pair in steps] for side in (0, 1))
    places = [
        (side + sum(pad) - (size - 1) * between - 1) // stride + 1
        for side, pad, size, (stride, between) in zip(image[1:-1], pads, sizes, steps, strict=True)
    ]
    rows, depth = image[0] * prod(places), prod(sizes) * channels

    def build(b: Any, x: Any, w: Any, shift: Any) -> Any:
        value = b.pad(b.relu(x), [[0, 0], *map(list, pads), [0, 0]], padding)
        value = b.transpose(value, [0, 1 + axes, *range(1, 1 + axes)])
        value = b.windows(value, sizes, strides, apart)
        value = b.transpose(value, [0, *range(2, 2 + 2 * axes), 1])
        return b.add(b.matmul(b.reshape(value, [rows, depth]), w), shift)

    types = [(element, image), (element, (depth, filters)), (element, (filters,))]
    return fused_kernel("contraction", types, build)


def numbers(kernel: FusedKernelOp, seed: int) -> list[np.ndarray]:
    """Small whole numbers, whose products and sums are exact."""
    random = np.random.default_rng(seed)
    shapes = [value.type.get_shape() for value in kernel.block.args]  # type: ignore
    dtype = np.float64 if "f64" in str(kernel.block.args[0].type) else np.float32
    return [random.integers(-4, 5, shape).astype(dtype) for shape in shapes]


@given(data=st.data())
@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
def test_rows_are_the_windows_that_the_interpreter_has(data: Any, cl_queue: Any) -> None:  # noqa: F811
    """One to three axes, strides, elements apart, uneven padding by other numbers than zero, blocks
    that begin and end amid the channels of an element.
    """
    element = data.draw(st.sampled_from(["f32", "f32", "f64"]))
    lanes = CPU.lanes(4 if element == "f32" else 8)
    axes = data.draw(st.integers(1, 3))
    sizes = [data.draw(st.integers(1, 3)) for _ in range(axes)]
    pads = [(data.draw(st.integers(0, 2)), data.draw(st.integers(0, 2))) for _ in range(axes)]
    steps = [(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))) for _ in range(axes)]
    least = [(size - 1) * apart + 1 for size, (_, apart) in zip(sizes, steps, strict=True)]
    sides = [data.draw(st.integers(max(low - sum(pad), 1), low + 6)) for low, pad in
             zip(least, pads, strict=True)]  # fmt: skip
    image = (data.draw(st.integers(1, 3)), *sides, lanes * data.draw(st.integers(1, 4)))
    padding = data.draw(st.sampled_from([0.0, 3.0]))
    kernel = convolution(
        image, data.draw(st.integers(16, 70)), sizes, pads, steps, padding, element
    )
    arrays = numbers(kernel, data.draw(st.integers(0, 99)))
    fixed = {"block_depth": data.draw(st.sampled_from([32, 96, 1024])), "units": 1}
    (found,) = run(cl_queue, kernel, arrays, CPU, **fixed)
    (wanted,) = expected(kernel, arrays)
    np.testing.assert_array_equal(found, wanted.astype(found.dtype))


def test_blocks_of_whole_vectors_are_packed_so(cl_queue: Any, monkeypatch: Any) -> None:  # noqa: F811
    """What the cases above are about: the schedule is of packed panels, in several blocks."""
    kernel = convolution((2, 9, 8, 48), 40, [3, 2], [(1, 1), (0, 1)], [(1, 1), (2, 1)])
    entries = scheduled(kernel, CPU, block_depth=64)
    assert entries["variant"] == "packed panels"
    assert 48 % entries["block_depth"] and entries["block_depth"] < 48 * 6
    packed: list[int] = []
    own = packed_product.pack_left_windows

    def counted(*arguments: Any) -> None:
        packed.append(1)
        own(*arguments)

    monkeypatch.setattr(packed_product, "pack_left_windows", counted)
    arrays = numbers(kernel, 0)
    (found,) = run(cl_queue, kernel, arrays, CPU, block_depth=64)
    assert packed
    np.testing.assert_array_equal(found, expected(kernel, arrays)[0])


@pytest.mark.parametrize(
    "channels, depth, fits", [(32, 64, True), (24, 72, False), (32, 72, False)]
)
def test_only_whole_vectors_of_channels_are_packed_so(
    channels: int, depth: int, fits: bool
) -> None:
    kernel = convolution((1, 9, 9, channels), 40, [3, 3], [(1, 1)] * 2, [(1, 1)] * 2)
    product = Product.of_body(read_body(kernel))
    assert (windows_in_vectors(product, depth, 16) is not None) is fits
