"""Gradients on shapes at the edge: axes of 1 and of 0, scalars, vectors, what broadcasts."""

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from tests.gradients.differences import check, weighted

Shape = tuple[int, ...]

PAIRS: list[tuple[Shape, Shape]] = [
    ((), ()),
    ((), (3,)),
    ((3, 1), (1, 4)),
    ((1, 1), (2, 3, 4)),
    ((0, 3), (1, 3)),
    ((2, 1, 0), (1,)),
    ((5,), (2, 1, 5)),
]

PRODUCTS: list[tuple[Shape, Shape, bool, bool]] = [
    ((3,), (3,), False, False),
    ((3,), (3, 4), False, False),
    ((3,), (2, 3, 4), False, False),
    ((2, 5, 3), (3,), False, False),
    ((2, 5, 3), (3, 4), False, False),
    ((2, 5, 3), (4, 3), False, True),
    ((2, 3, 5), (3, 4), True, False),
    ((2, 3, 5), (4, 3), True, True),
    ((5, 3), (2, 6, 3, 4), False, False),
    ((2, 6, 5, 3), (2, 1, 3, 4), False, False),
    ((2, 6, 5, 3), (2, 1, 4, 3), False, True),
    ((2, 1, 5, 3), (6, 3, 4), False, False),
    ((1, 5, 3), (1, 3, 4), False, False),
    ((0, 5, 3), (3, 4), False, False),
    ((2, 5, 0), (0, 4), False, False),
    ((2, 0, 3), (3, 4), False, False),
]

ROWS: list[tuple[Shape, tuple[int, ...]]] = [
    ((1,), (0,)),
    ((3, 1), (1,)),
    ((1, 4), (1,)),
    ((0, 4), (1,)),
    ((2, 3, 4), (0, 2)),
    ((2, 3, 4), ()),
    ((2, 3, 4), (0, 1, 2)),
]


def drawn(*shapes: Shape) -> list[np.ndarray]:
    """Arrays of numbers from 1/2 to 2."""
    random = np.random.default_rng(sum(len(shape) for shape in shapes))
    return [np.asarray(random.uniform(0.5, 2.0, shape)) for shape in shapes]


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
def test_what_was_broadcast_is_summed_back(shapes: tuple[Shape, Shape]) -> None:
    def build(b: Emitter, values: Sequence[SSAValue]) -> SSAValue:
        x, y = values
        calls = ("add", "sub", "mul", "div", "pow", "max", "min", "mod", "swiglu", "geglu")
        results = [b.call(name, x, y) for name in calls]
        results += [b.call(name, x, y, reduction="sum") for name in ("mse", "l1", "huber")]
        return weighted(b, [*results, b.where(b.lt(x, y), x, y)])

    check(build, drawn(*shapes), second=True)


@pytest.mark.parametrize(("a", "c", "flip_a", "flip_c"), PRODUCTS, ids=str)
def test_products_of_all_shapes(a: Shape, c: Shape, flip_a: bool, flip_c: bool) -> None:
    def build(b: Emitter, values: Sequence[SSAValue]) -> SSAValue:
        return weighted(b, [b.matmul(*values, transpose_a=flip_a, transpose_b=flip_c)])

    check(build, drawn(a, c), second=True)


@pytest.mark.parametrize(("shape", "axes"), ROWS, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions_of_all_shapes(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> None:
    names = ("sum", "mean", "prod", "var", "logsumexp", "max_reduce", "min_reduce")

    def build(b: Emitter, values: Sequence[SSAValue]) -> SSAValue:
        (x,) = values
        results = [b.call(name, x, axis=list(axes), keepdims=keepdims) for name in names]
        return weighted(b, [*results, b.cumsum(x, axis=list(axes)), b.cumprod(x, axis=list(axes))])

    check(build, drawn(shape), second=True)


@pytest.mark.parametrize("shape", [(1,), (4,), (1, 1), (3, 1), (0, 3), (2, 1, 5)], ids=str)
def test_rows_and_movement_of_all_shapes(shape: Shape) -> None:
    rank = len(shape)

    def build(b: Emitter, values: Sequence[SSAValue]) -> SSAValue:
        x, w = values
        rows = [b.softmax(x), b.log_softmax(x), b.layer_norm(x, w, w), b.rms_norm(x, w)]
        rows += [b.sort(x, descending=True), b.topk(x, shape[-1])[0], b.flip(x), b.tile(x, [2] * 3)]
        rows += [b.pad(x, [[1, 2]] * rank, 3.0), b.concat([x, x, b.exp(x)], axis=-1)]
        rows += [b.repeat(x, 3, axis=-1), b.stack([x, x], axis=rank), b.slice(x, [0] * rank, shape)]
        rows += [b.slice(x, [0] * rank, shape, [2] * rank), b.broadcast_to(x, (2, *shape))]
        rows += [b.dynamic_slice(x, [0] * rank, [min(n, 1) for n in shape])]
        rows += [b.dynamic_update_slice(x, x, [0] * rank)]
        return weighted(b, rows)

    check(build, drawn(shape, shape[-1:]), second=True)


@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2])
def test_windows_that_meet_are_added_up(size: int, stride: int, dilation: int) -> None:
    def build(b: Emitter, values: Sequence[SSAValue]) -> SSAValue:
        (x,) = values
        return weighted(b, [b.windows(x, [2, size], [1, stride], [1, dilation])])

    check(build, drawn((2, 4, 17)))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_rows_whose_label_is_ignored_have_no_part(reduction: str) -> None:
    labels = np.array([[0, 3, 1], [3, 2, 2]], np.int32)

    def build(b: Emitter, values: Sequence[SSAValue]) -> SSAValue:
        ids = b.constant_array(labels)
        how = {"reduction": reduction, "ignore_index": 3}
        results = [b.cross_entropy(values[0], ids, **how), b.nll(values[0], ids, **how)]
        outside = {**how, "ignore_index": 1 << 40}
        return weighted(b, [*results, b.cross_entropy(values[0], ids, **outside)])

    check(build, drawn((2, 3, 5)), second=True)


@pytest.mark.parametrize("kernel", [(1, 1), (3, 2)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 3)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_images_of_few_places_get_what_windows_send_back(
    kernel: Shape, stride: Shape, dilation: int
) -> None:
    """There are more filters than places, so the weights are multiplied as they lie."""

    def build(b: Emitter, values: Sequence[SSAValue]) -> SSAValue:
        how = {"stride": stride, "dilation": dilation}
        return weighted(b, [b.conv2d(*values, padding=((1, 2), (3, 0)), **how)])

    check(build, drawn((1, 2, 3, 2), (41, 2, *kernel)))
