"""Products of which neighbouring results are combined: pools behind convolutions as one kernel.

Small integers make sums exact, so that results are compared bit by bit.
"""

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.arrangements.kernel_pieces import KernelPieces
from mgn.passes.arrangements.prepack_weights import PackedWeights
from mgn.passes.lower_kernels import lower_kernel
from mgn.passes.schedules.choose import schedules_of
from mgn.passes.schedules.product.product import ProductVariant
from tests.support.lower_fixture import (
    CPU,
    GPU_ON_CPU,
    Run,
    check_all,
    expected,
    fused_kernel,
    launch,
    lowered,
    same_rounded,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue  # noqa: F401
from tests.support.spirv_fixture import need_spirv, spirv_signature

COMBINED = ("max_reduce", "min_reduce", "sum")
FEW = settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def windows_of(b: Any, x: Any, window: tuple[int, ...]) -> Any:
    """Windows side by side over the last axes, with the axes of their elements first."""
    found, axes = b.windows(x, window, window, 1), len(window)
    outer = len(found.type.get_shape()) - 2 * axes
    order = [*range(outer), *range(outer + axes, outer + 2 * axes), *range(outer, outer + axes)]
    return b.transpose(found, order)


def after(b: Any, y: Any, shift: Any) -> Any:
    """A bias of each channel, and a rectifier."""
    lines = [1] * (len(y.type.get_shape()) - 2)
    return b.relu(b.add(y, b.reshape(shift, [*shift.type.get_shape(), *lines])))


def pooled_convolution(
    image: tuple[int, ...],
    filters: int,
    kernel: int,
    pad: int,
    window: tuple[int, ...],
    combine: str = "max_reduce",
    element: str = "f32",
    last: bool = False,
    read: Any = lambda b, x: x,
) -> FusedKernelOp:
    """A convolution, a bias, a rectifier, a pool, of images with channels first or last; all that
    it reads is `read` so.
    """
    number, channels, *sides = image
    axes = len(sides)
    places = [side + 2 * pad - kernel + 1 for side in sides]
    depth = channels * kernel**axes
    to_first = (0, 1 + axes, *range(1, 1 + axes))
    given_as = (number, *sides, channels) if last else image

    def build(b: Any, *given: Any) -> Any:
        x, w, shift = (read(b, item) for item in given)
        around = [[pad, pad]] * axes
        padding = [[0, 0], *around, [0, 0]] if last else [[0, 0], [0, 0], *around]
        x = b.pad(x, padding, 0.0) if pad else x
        x = b.transpose(x, to_first) if last else x
        found = b.windows(x, [kernel] * axes, 1, 1)
        if last:
            found = b.transpose(found, [0, *range(2, 2 + 2 * axes), 1])
            found = b.reshape(found, [number * prod(places), depth])
            y = b.reshape(b.matmul(found, w, transpose_b=True), [number, *places, filters])
            y = b.relu(b.add(y, shift))
            found = b.windows(b.transpose(y, to_first), window, window, 1)
            found = b.transpose(found, [0, *range(2, 2 + 2 * axes), 1])
            return getattr(b, combine)(found, axis=tuple(range(1 + axes, 1 + 2 * axes)))
        elements = [*range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes)]
        outer = [number] if number > 1 else []
        found = b.transpose(found, [0, 1, *elements])
        found = b.reshape(found, [*outer, depth, prod(places)])
        y = b.reshape(b.matmul(w, found), [number, filters, *places])
        found = windows_of(b, after(b, y, shift), window)
        return getattr(b, combine)(found, axis=tuple(range(2, 2 + axes)))

    types = [(element, given_as), (element, (filters, depth)), (element, (filters,))]
    return fused_kernel("contraction", types, build)


def drawn(kernel: FusedKernelOp, seed: int = 0) -> list[np.ndarray]:
    """Small whole numbers for what a kernel reads."""
    random, found = np.random.default_rng(seed), list[np.ndarray]()
    for value in kernel.inputs:
        shape = value.type.get_shape()  # type: ignore
        name = str(value.type.element_type)  # type: ignore
        found.append(random.integers(-3, 4, shape).astype(ELEMENT_TYPES[name].dtype))
    return found


def in_panels(kernel: FusedKernelOp) -> FusedKernelOp:
    """The kernel that multiplies where weights lie in panels."""
    pieces = KernelPieces(kernel)
    PackedWeights(32).write(pieces)
    made = pieces.replace()
    for item in made:
        item.verify()
    return made[-1]


IMAGES = [
    ((1, 3, 12, 12), 5, 3, 1, (2, 2)),
    ((2, 4, 13, 17), 6, 3, 1, (2, 2)),
    ((1, 2, 11, 40), 4, 1, 0, (2, 1)),
    ((1, 2, 14, 39), 9, 3, 1, (3, 3)),
    ((3, 2, 9, 36), 4, 3, 0, (1, 3)),
    ((1, 1, 32, 32), 6, 5, 0, (2, 2)),
    ((2, 3, 70), 8, 3, 1, (2,)),
]


@pytest.mark.parametrize("combine", COMBINED)
def test_windows_of_places_are_combined_in_bands(combine: str, cl_queue: Any) -> None:  # noqa: F811
    runs = list[Run]()
    for case in IMAGES:
        kernel = pooled_convolution(*case, combine)
        found = schedules_of(kernel, CPU)
        if case[2] > 1:
            assert [item.variant for item in found] == [ProductVariant.WINDOWS], case
        runs.append(Run(kernel, drawn(kernel), CPU, what=str(case)))
    check_all(cl_queue, runs, same_rounded)


WIDE_IMAGES = [
    ((1, 3, 12, 16), 32, 3, 1, (2, 2)),
    ((2, 4, 13, 14), 64, 3, 1, (2, 2)),
    ((1, 16, 15, 30), 32, 3, 1, (3, 3)),
    ((1, 2, 9, 8), 32, 3, 1, (2, 1)),
    ((3, 2, 60), 32, 3, 1, (2,)),
]


@pytest.mark.parametrize("combine", COMBINED)
def test_windows_of_places_are_combined_in_squares(
    combine: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = list[Run]()
    for case in WIDE_IMAGES:
        kernel = pooled_convolution(*case, combine)
        arrays = drawn(kernel)
        filters, depth = arrays[1].shape
        arrays.append(arrays.pop(1).reshape(filters // 32, 32, depth).transpose(0, 2, 1))
        made = in_panels(kernel)
        assert [item.variant for item in schedules_of(made, CPU)] == [ProductVariant.PLACES]
        runs.append(Run(made, arrays, CPU, what=str(case)))
    check_all(cl_queue, runs, same_rounded)


@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
@pytest.mark.parametrize("combine", COMBINED)
def test_windows_of_places_are_rows_of_images_with_channels_last(
    combine: str,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = list[Run]()
    for case in [*IMAGES, *WIDE_IMAGES, ((1, 16, 12, 12), 16, 3, 1, (2, 2))]:
        kernel = pooled_convolution(*case, combine, element, last=True)
        assert [item.variant for item in schedules_of(kernel, CPU)] == [ProductVariant.PACKED]
        runs.append(Run(kernel, drawn(kernel), CPU, what=str(case)))
    check_all(cl_queue, runs, same_rounded)


@pytest.mark.parametrize("last", [False, True], ids=["columns", "rows"])
@pytest.mark.parametrize("combine", COMBINED)
def test_windows_of_places_are_combined_in_a_gpus_tiles(
    last: bool,
    combine: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = list[Run]()
    for case in [*IMAGES, *WIDE_IMAGES]:
        kernel = pooled_convolution(*case, combine, last=last)
        if 4 % prod(case[-1]):
            with pytest.raises(VerifyException, match="no tile has all neighbours"):
                lowered(kernel, GPU_ON_CPU)
            continue
        variants = {item.variant for item in schedules_of(kernel, GPU_ON_CPU)}
        assert variants == {ProductVariant.TILES}
        runs.append(Run(kernel, drawn(kernel), GPU_ON_CPU, what=str(case)))
    check_all(cl_queue, runs, same_rounded)


@FEW
@given(data=st.data())
def test_drawn_pools_are_those_of_the_interpreter(data: Any, cl_queue: Any) -> None:  # noqa: F811
    """Windows of any size over images of any size: rows and columns are left over at borders."""
    axes = data.draw(st.integers(1, 3), "axes")
    sides = tuple(data.draw(st.integers(3, 40 if axes < 3 else 9)) for _ in range(axes))
    kernel, pad = data.draw(st.sampled_from([(1, 0), (3, 0), (3, 1)]))
    places = [side + 2 * pad - kernel + 1 for side in sides]
    window = tuple(data.draw(st.integers(1, min(3, place))) for place in places)
    number, channels = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 5))
    filters = data.draw(st.integers(2, 40))
    combine, last = data.draw(st.sampled_from(COMBINED)), data.draw(st.booleans())
    device = data.draw(st.sampled_from([CPU, GPU_ON_CPU]))
    if prod(window) == 1:
        return
    image = (number, channels, *sides)
    made = pooled_convolution(image, filters, kernel, pad, window, combine, last=last)
    try:
        schedules_of(made, device)
    except VerifyException as error:
        assert "no tile has all neighbours" in str(error)
        return
    check_all(cl_queue, [Run(made, drawn(made), device)], same_rounded)


@pytest.mark.parametrize("device", [CPU, GPU_ON_CPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("last", [False, True], ids=["columns", "rows"])
def test_half_precision_is_combined_as_it_is_stored(
    last: bool,
    element: str,
    device: Any,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = list[Run]()
    for combine in COMBINED:
        kernel = pooled_convolution((1, 3, 10, 12), 8, 3, 1, (2, 2), combine, element, last)
        try:
            schedules_of(kernel, device)
        except VerifyException:
            assert device is CPU and not last, "bands of planes are of f32"
            continue
        runs.append(Run(kernel, drawn(kernel), device, what=combine))
    check_all(cl_queue, runs, same_rounded)


@pytest.mark.parametrize("device", [CPU, GPU_ON_CPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("last", [False, True], ids=["columns", "rows"])
def test_largest_elements_pass_on_nan_and_infinities(
    last: bool,
    device: Any,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = list[Run]()
    for combine in COMBINED:
        kernel = pooled_convolution((1, 1, 16, 24), 3, 1, 0, (2, 2), combine, last=last)
        x, w, shift = drawn(kernel)
        flat, values = x.reshape(-1), [np.nan, np.inf, -np.inf, -0.0]
        for number, value in enumerate(values):
            flat[7 + 31 * number :: 97] = value
        runs.append(Run(kernel, [x, np.abs(w) + 1, shift], device, what=combine))
    check_all(cl_queue, runs, same_rounded)


Few = tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], int]
REDUCED: list[Few] = [
    ("rows", (48, 20), (12, 4, 36), (1,), 36),
    ("rows of halves", (48, 20), (2, 24, 36), (0,), 36),
    ("columns", (48, 20), (48, 9, 4), (2,), 36),
    ("columns far apart", (48, 20), (48, 2, 18), (1,), 36),
    ("rows of a batch", (3, 16, 20), (3, 8, 2, 36), (2,), 36),
    ("two axes of rows", (48, 20), (2, 4, 2, 3, 36), (0, 2), 36),
]


@pytest.mark.parametrize("device", [CPU, GPU_ON_CPU], ids=["cpu", "gpu"])
def test_any_reduction_of_few_neighbours_follows_a_product(
    device: Any,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = list[Run]()
    for what, left, shape, axes, columns in REDUCED:
        kept = [size for axis, size in enumerate(shape) if axis not in axes]

        def build(b: Any, x: Any, w: Any, more: Any, shape: Any = shape, axes: Any = axes) -> Any:
            found = b.reshape(b.neg(b.matmul(x, w)), shape)
            return b.mul(b.add(b.max_reduce(found, axis=axes), more), 2.0)

        types = [("f32", left), ("f32", (left[-1], columns)), ("f32", tuple(kept))]
        kernel = fused_kernel("contraction", types, build)
        rows = "rows" in what
        if device is CPU and not rows:
            with pytest.raises(VerifyException, match="no tile has all neighbours"):
                lowered(kernel, device)
            continue
        runs.append(Run(kernel, drawn(kernel), device, what=what))
    check_all(cl_queue, runs, same_rounded)


@pytest.mark.parametrize("device", [CPU, GPU_ON_CPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("last", [False, True], ids=["columns", "rows"])
def test_pools_are_right_as_spirv(last: bool, device: Any, cl_queue: Any) -> None:  # noqa: F811
    need_spirv(cl_queue)
    for case in IMAGES[:2]:
        made = pooled_convolution(*case, last=last)
        item = Run(made, drawn(made), device, what=str(case))
        outputs = item.outputs()
        signature = spirv_signature(lowered(made, device), device)
        launch(cl_queue, signature, item.arrays, outputs)
        same_rounded(item, outputs, expected(made, item.arrays))


def refused(build: Any, message: str, columns: int = 8) -> None:
    types = [("f32", (16, 4)), ("f32", (4, columns))]
    with pytest.raises(VerifyException, match=message):
        fused_kernel("contraction", types, build)


def test_what_no_template_combines_is_no_kernel() -> None:
    neighbours = "combines no few neighbours"

    def moved(order: list[int]) -> Any:
        def build(b: Any, x: Any, w: Any) -> Any:
            found = b.transpose(b.reshape(b.matmul(x, w), [8, 2, 8]), order)
            return b.max_reduce(found, axis=[order.index(1)])

        return build

    fused_kernel("contraction", [("f32", (16, 4)), ("f32", (4, 8))], moved([1, 0, 2]))
    refused(moved([2, 1, 0]), neighbours)
    refused(lambda b, x, w: b.prod(b.reshape(b.matmul(x, w), [8, 2, 8]), axis=[1]), neighbours)
    refused(lambda b, x, w: b.sum(b.matmul(x, w), axis=[0, 1]), neighbours)
    refused(lambda b, x, w: b.sum(b.matmul(x, w), axis=[1]), neighbours, columns=64)
    overlapping = neighbours
    refused(
        lambda b, x, w: b.max_reduce(b.windows(b.matmul(x, w), [2], 1, 1), axis=[2]), overlapping
    )
    refused(
        lambda b, x, w: b.max_reduce(b.neg(b.windows(b.matmul(x, w), [2], 2, 1)), axis=[2]),
        "windows cannot follow a matmul",
    )


def test_a_pool_and_what_it_combines_are_not_both_written() -> None:
    def build(b: Any, x: Any, w: Any) -> Any:
        product = b.matmul(x, w)
        return [b.max_reduce(b.reshape(product, [8, 2, 8]), axis=[1]), product]

    refused(build, "every result must depend on the max_reduce")


def test_no_rows_are_reduced_before_such_a_product() -> None:
    def build(b: Any, x: Any, w: Any) -> Any:
        scaled = b.mul(x, b.sum(b.mul(x, x), axis=[1], keepdims=True))
        return b.max_reduce(b.reshape(b.matmul(scaled, w), [8, 2, 8]), axis=[1])

    refused(build, "exactly one reduction operation, not 2")


@pytest.mark.parametrize(
    ("case", "last", "entries", "message"),
    [
        (IMAGES[0], False, {"band": 3}, "a band has no whole windows"),
        (IMAGES[0], True, {"tile_rows": 13}, "parts of groups"),
    ],
)
def test_a_schedule_with_parts_of_groups_is_refused(
    case: Any, last: bool, entries: dict[str, int], message: str
) -> None:
    kernel = pooled_convolution(*case, last=last)
    with pytest.raises(VerifyException, match=message):
        lower_kernel(kernel, "k", {**scheduled(kernel, CPU), **entries})


@pytest.mark.parametrize("device", [CPU, GPU_ON_CPU], ids=["cpu", "gpu"])
def test_integers_are_combined(device: Any, cl_queue: Any) -> None:  # noqa: F811
    runs = list[Run]()
    for combine in COMBINED:
        kernel = pooled_convolution((2, 3, 11, 12), 8, 3, 1, (2, 2), combine, "i32", last=True)
        runs.append(Run(kernel, drawn(kernel), device, what=combine))
    check_all(cl_queue, runs, same_rounded)


@pytest.mark.parametrize("last", [False, True])
def test_windows_that_are_computed_are_no_candidates_for_tiles(last: bool) -> None:
    """An H200 takes 38 µs to round windows on their way, for 12 by its matrix unit."""
    case = ((1, 16, 12, 12), 32, 3, 1, (2, 2))
    plain = pooled_convolution(*case, last=last)
    assert {item.variant for item in schedules_of(plain, GPU_ON_CPU)} == {ProductVariant.TILES}
    for read in (lambda b, x: b.round_tf32(x), lambda b, x: b.add(x, 1.0)):
        kernel = pooled_convolution(*case, last=last, read=read)
        with pytest.raises(VerifyException, match="no tile has all neighbours"):
            schedules_of(kernel, GPU_ON_CPU)
