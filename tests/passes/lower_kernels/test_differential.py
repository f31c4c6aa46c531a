"""Every core operation in every element type, and every template in both forms, on the CPU device.

The reference is the interpreter with all floats in f64, on the same rounded inputs. A float result
is allowed: `ulps` units in the last place of its element type, for the functions OpenCL bounds at 4
ulp (f32) and the one rounding of a half-precision result; or, for sums of n terms, n units of the
accumulator's precision times the sum of magnitudes, the textbook bound of recursive summation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mgn.dialects.mgn.operation import OPERATIONS, Kind
from mgn.dialects.types import ELEMENT_TYPES, Family
from mgn.passes.kernels.body import read_body
from mgn.passes.kernels.rows import elements_in_line, row_space
from mgn.passes.lower_kernels.core.movement import MOVEMENT_ROWS
from mgn.passes.lower_kernels.core.scalar import REDUCTION_ROWS, SCALAR_ROWS
from tests.support.lower_fixture import Run, check_all, forms_of, fused_kernel, same_values
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401
from tests.support.spirv_fixture import also_as_spirv  # noqa: F401

ELEMENTS = [name for name, row in ELEMENT_TYPES.items() if row.dtype is not None]
SHAPES: list[tuple[int, ...]] = [(0,), (), (16,), (3, 36), (3, 37), (2, 3, 1031)]
VECTORS_AND_REST: tuple[int, ...] = (3, 36)
"""On the CPU; a GPU's vectors are shorter, and leave nothing."""

EPSILON = {"f64": 2**-52, "f32": 2**-23, "f16": 2**-10, "bf16": 2**-7}
POSITIVE = {"log", "sqrt", "rsqrt", "log1p", "pow", "recip", "div", "mod"}


def draw(name: str, shape: tuple[int, ...], seed: int, positive: bool = False) -> np.ndarray:
    """Random values of an element type: floats in [-2, 2], integers over their whole range."""
    row, random = ELEMENT_TYPES[name], np.random.default_rng(seed)
    assert row.dtype is not None
    if row.is_float:
        return np.asarray(random.uniform(0.1 if positive else -2, 2, shape)).astype(row.dtype)
    if row.family is Family.BOOL:
        return np.asarray(random.integers(0, 2, shape)).astype(row.dtype)
    limits = np.iinfo(row.dtype)
    small = np.asarray(random.integers(max(-9, limits.min), 9, shape))
    wide = np.asarray(
        random.integers(limits.min, limits.max, shape, endpoint=True, dtype=row.dtype)
    )
    return np.where(random.random(shape) < 0.7, small, wide).astype(row.dtype)


def assert_near(got: np.ndarray, want: np.ndarray, bound: Any, what: str) -> None:
    """Equal for integers and bools; floats within a bound, with the same NaNs and infinities."""
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want.astype(got.dtype), err_msg=what)
        return
    wide = got.astype(np.float64)
    limit = float(ml_dtypes.finfo(got.dtype).max)
    want = np.where(np.abs(want) > limit, np.copysign(np.inf, want), want)
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(want), err_msg=what)
    inside = np.isfinite(want) & np.isfinite(wide)
    np.testing.assert_array_equal(wide[~inside], want[~inside], err_msg=what)
    error = np.abs(wide - want)
    assert np.all((error <= bound)[inside]), f"{what}: error {error[inside].max():.3g}"


def ulps(element: str, want: np.ndarray, count: float) -> np.ndarray:
    """A bound of so many units in the last place; subnormal results may be flushed."""
    if element not in EPSILON:
        return np.zeros(())
    tiny = float(ml_dtypes.finfo(ELEMENT_TYPES[element].dtype).tiny)
    return count * EPSILON[element] * np.abs(want) + 2 * tiny


def elementwise_cases() -> dict[str, list[str]]:
    """Operations, and the element types they take."""
    return {
        spec.name: [
            e
            for e in ELEMENTS
            if ELEMENT_TYPES[e].family in spec.operands[0].accepts
            and e == (spec.operands[0].element or e)
        ]
        for spec in OPERATIONS.values()
        if spec.kind is Kind.ELEMENTWISE and spec.is_core and spec.name not in ("where", "cast")
    }


def test_every_core_elementwise_operation_has_a_row() -> None:
    core = {s.name for s in OPERATIONS.values() if s.kind is Kind.ELEMENTWISE and s.is_core}
    assert sorted(core - set(SCALAR_ROWS)) == []


def test_every_core_movement_and_indexing_operation_has_a_row() -> None:
    kinds = (Kind.MOVEMENT, Kind.INDEXING)
    core = {s.name for s in OPERATIONS.values() if s.kind in kinds and s.is_core}
    assert sorted(core - set(MOVEMENT_ROWS)) == []


def test_every_core_reduction_and_scan_has_a_row() -> None:
    kinds = (Kind.REDUCTION, Kind.SCAN)
    core = {s.name for s in OPERATIONS.values() if s.kind in kinds and s.is_core}
    assert sorted(core - set(REDUCTION_ROWS)) == []


@pytest.mark.usefixtures("unoptimised", "also_as_spirv")
@pytest.mark.parametrize(("name", "elements"), elementwise_cases().items())
def test_an_elementwise_operation_computes_what_the_interpreter_does(
    name: str,
    elements: list[str],
    cl_queue: Any,  # noqa: F811
) -> None:
    """Vectors and a rest in every type; the other shapes, in both forms, are dealt to the types."""
    count = len(OPERATIONS[name].operands)
    runs: list[Run] = []
    for number, element in enumerate(elements):
        shapes = SHAPES[number :: len(elements)]
        for shape in dict.fromkeys((VECTORS_AND_REST, *shapes)):
            arrays = [draw(element, shape, number + 9 * i, name in POSITIVE) for i in range(count)]
            if name == "pow" and not ELEMENT_TYPES[element].is_float:
                arrays[1] = (arrays[1] % 5).astype(arrays[1].dtype)
            types = [(element, shape)] * count
            kernel = fused_kernel("pointwise", types, lambda b, *x: b.call(name, *x))
            everywhere = forms_of(kernel, arrays, f"{element} {shape}")
            runs += everywhere if shape in shapes else everywhere[:1]

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        bound = ulps(run.what.split()[0], want[0], 16 if name in ("pow", "tan") else 5)
        assert_near(got[0], want[0], bound, f"{name} {run.what}")

    check_all(cl_queue, runs, check)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, 1.5, 1e30, -1e30, 3.0]


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize(
    "name", ["max", "min", "round", "round_tf32", "sign", "mod", "eq", "ne", "lt", "abs"]
)
def test_special_floats_pass_as_the_interpreter_says(name: str, cl_queue: Any) -> None:  # noqa: F811
    sides = np.meshgrid(*[np.array(SPECIAL, np.float64)] * 2)
    count = len(OPERATIONS[name].operands)
    runs: list[Run] = []
    for element in EPSILON:
        with np.errstate(all="ignore"):
            arrays = [side.astype(ELEMENT_TYPES[element].dtype) for side in sides][:count]
        types = [(element, sides[0].shape)] * count
        kernel = fused_kernel("pointwise", types, lambda b, *x: b.call(name, *x))
        runs += forms_of(kernel, arrays, element)

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        assert_near(got[0], want[0], ulps(run.what.split()[0], want[0], 1), f"{name} {run.what}")

    check_all(cl_queue, runs, check)


@pytest.mark.usefixtures("unoptimised", "also_as_spirv")
@pytest.mark.parametrize("source", ELEMENTS)
def test_a_cast_truncates_saturates_or_wraps(source: str, cl_queue: Any) -> None:  # noqa: F811
    array = draw(source, (5, 37), 3)
    if ELEMENT_TYPES[source].is_float:
        array = np.concatenate([array.ravel(), np.array([300, -300, 1e6, 7e4, -7e4, np.nan, 0.5])])
        array = array.astype(ELEMENT_TYPES[source].dtype)
    runs: list[Run] = []
    for target in ELEMENTS:
        types = [(source, array.shape)]
        kernel = fused_kernel("pointwise", types, lambda b, x, T=target: b.cast(x, T))
        runs += forms_of(kernel, [array], target)

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        assert_near(got[0], want[0], ulps(run.what.split()[0], want[0], 1), run.what)

    check_all(cl_queue, runs, check)


@pytest.mark.usefixtures("also_as_spirv")
def test_where_chooses_elements_with_broadcasting(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for element in ELEMENTS:
        types = [("bool", (1, 37)), (element, (5, 37)), (element, (5, 1))]
        arrays = [draw(e, s, n) for n, (e, s) in enumerate(types)]
        kernel = fused_kernel("pointwise", types, lambda b, c, x, y: b.where(c, x, y))
        runs += forms_of(kernel, arrays, element)
    check_all(cl_queue, runs, same_values)


MOVEMENTS: dict[str, tuple[list[tuple[int, ...]], Callable[..., Any]]] = {
    "reshape that merges": ([(6, 35)], lambda b, x: b.reshape(x, [14, 15])),
    "transpose": ([(33, 48)], lambda b, x: b.transpose(x, [1, 0])),
    "transpose of heads": ([(2, 8, 4, 16)], lambda b, x: b.transpose(x, [0, 2, 1, 3])),
    "reshape and transpose": (
        [(4, 96)],
        lambda b, x: b.reshape(b.transpose(b.reshape(x, [4, 6, 16]), [1, 0, 2]), [6, 64]),
    ),
    "broadcast": ([(5, 1, 7)], lambda b, x: b.broadcast_to(x, [2, 5, 3, 7])),
    "slice with steps": ([(9, 70)], lambda b, x: b.slice(x, [1, 3], [8, 67], [3, 2])),
    "slice of a half": ([(4, 64)], lambda b, x: b.slice(x, [0, 32], [4, 64])),
    "pad": ([(5, 20)], lambda b, x: b.pad(x, [[1, 2], [3, 9]], 1.0)),
    "pad of rows": ([(5, 32)], lambda b, x: b.pad(x, [[1, 2], [0, 0]], 1.0)),
    "pad by whole vectors": ([(5, 32)], lambda b, x: b.pad(x, [[0, 0], [16, 16]], 1.0)),
    "flip": ([(5, 37)], lambda b, x: b.flip(x, axis=[1])),
    "flip of rows": ([(5, 32)], lambda b, x: b.flip(x, axis=[0])),
    "concat of rows": ([(3, 40), (5, 40)], lambda b, x, y: b.concat([x, y], axis=0)),
    "concat of columns": ([(3, 33), (3, 7)], lambda b, x, y: b.concat([x, y], axis=1)),
    "concat of three": (
        [(3, 16), (3, 32), (3, 16)],
        lambda b, x, y, z: b.concat([x, y, z], axis=1),
    ),
    "rotated halves": (
        [(6, 64)],
        lambda b, x: b.concat([b.slice(x, [0, 32], [6, 64]), b.slice(x, [0, 0], [6, 32])], axis=1),
    ),
    "pad of a slice of a transpose": (
        [(20, 30)],
        lambda b, x: b.pad(
            b.slice(b.transpose(x, [1, 0]), [2, 1], [29, 18]), [[1, 1], [2, 0]], 0.0
        ),
    ),
}


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("case", MOVEMENTS.values(), ids=MOVEMENTS.keys())
def test_movement_copies_the_right_elements(
    case: tuple[list[tuple[int, ...]], Callable[..., Any]],
    cl_queue: Any,  # noqa: F811
) -> None:
    shapes, build = case
    others = ("f64", "bf16", "u8", "bool")
    runs: list[Run] = []
    for element in ("f32", others[list(MOVEMENTS.values()).index(case) % len(others)]):
        kernel = fused_kernel("pointwise", [(element, shape) for shape in shapes], build)
        arrays = [draw(element, shape, n) for n, shape in enumerate(shapes)]
        runs += forms_of(kernel, arrays, element)
    check_all(cl_queue, runs, same_values)


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_clamps_ids_into_the_axis(axis: int, cl_queue: Any) -> None:  # noqa: F811
    table, runs = draw("f32", (6, 48), 1), list[Run]()
    for ids in ("i64", "i32", "i16", "u8", "u32"):
        numbers = np.array([[0, 3, 200, 5, 1], [2, 2, 100, 0, 4]]).astype(ELEMENT_TYPES[ids].dtype)
        if not ids.startswith("u"):
            numbers[0, 0] = -7
        types = [("f32", (6, 48)), (ids, (2, 5))]
        kernel = fused_kernel("gather", types, lambda b, t, i: b.gather(t, i, axis=axis))
        runs += forms_of(kernel, [table, numbers], ids)
    check_all(cl_queue, runs, same_values)


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("axis", [0, 1])
def test_iota_and_full_are_constants_of_their_type(axis: int, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for element in (name for name in ELEMENTS if name != "bool"):
        kernel = fused_kernel(
            "pointwise",
            [(element, (7, 16))],
            lambda b, x, T=element: b.add(
                b.add(x, b.iota([7, 16], axis=axis, T=T)), b.full([7, 16], 3.0, T=T)
            ),
        )
        runs += forms_of(kernel, [np.zeros((7, 16), ELEMENT_TYPES[element].dtype)], element)

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        np.testing.assert_array_equal(got[0].astype(float), np.indices((7, 16))[axis] + 3, run.what)

    check_all(cl_queue, runs, check)


# Templates

REDUCED: list[tuple[tuple[int, ...], Sequence[int]]] = [
    ((64, 577), [1]),
    ((64, 577), [0]),
    ((5, 1), [1]),
    ((1, 40), [0]),
    ((3, 0), [1]),
    ((0, 3), [1]),
    ((33,), [0]),
    ((4, 30, 16), [1]),
    ((4, 30, 7), [0, 2]),
    ((6, 5, 48), [1, 2]),
    ((2, 20011), [1]),
    ((300, 3), [0]),
]


REDUCTIONS = ["sum", "prod", "max_reduce", "min_reduce"]


@pytest.mark.usefixtures("unoptimised", "also_as_spirv")
@pytest.mark.parametrize("element", [name for name in ELEMENTS if name != "bool"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_reduction_computes_what_the_interpreter_does(
    name: str,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    """All shapes in f32; in the other types each shape by one of the four."""
    kinds = len(REDUCTIONS)
    own = (REDUCTIONS.index(name) + ELEMENTS.index(element)) % kinds
    runs: list[Run] = []
    for number, (shape, axes) in enumerate(REDUCED):
        if element != "f32" and number % kinds != own:
            continue
        array = draw(element, shape, number)
        if name == "prod" and array.dtype.kind not in "iu":
            array = (1 + array.astype(np.float64) / 4000).astype(array.dtype)
        kernel = fused_kernel(
            "reduction", [(element, shape)], lambda b, x, a=axes: b.call(name, x, axis=list(a))
        )
        runs += forms_of(kernel, [array], f"{number} {shape} {axes}")

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        bound: Any = 0
        if element in EPSILON:
            axes = tuple(REDUCED[int(run.what.split()[0])][1])
            wide = np.abs(run.arrays[0].astype(np.float64))
            terms = int(np.prod([wide.shape[axis] for axis in axes]))
            scale = wide.sum(axis=axes) if name == "sum" else np.abs(want[0])
            unit = EPSILON["f64" if element == "f64" else "f32"]
            bound = terms * unit * scale + EPSILON[element] * np.abs(want[0])
        assert_near(got[0], want[0], bound, f"{name} {element} {run.what}")

    check_all(cl_queue, runs, check)


def softmax(b: Any, x: Any) -> Any:
    shifted = b.exp(b.sub(x, b.max_reduce(x, axis=-1, keepdims=True)))
    return b.div(shifted, b.sum(shifted, axis=-1, keepdims=True))


def layer_norm(b: Any, x: Any, w: Any, bias: Any) -> Any:
    scale = 1.0 / x.type.get_shape()[-1]
    centred = b.sub(x, b.mul(b.sum(x, axis=-1, keepdims=True), scale))
    variance = b.mul(b.sum(b.mul(centred, centred), axis=-1, keepdims=True), scale)
    return b.add(b.mul(b.mul(centred, b.rsqrt(b.add(variance, 1e-5))), w), bias)


def add_and_norm(b: Any, x: Any, y: Any) -> Any:
    total = b.add(x, y)
    mean = b.mul(b.sum(b.mul(total, total), axis=-1), 1.0 / x.type.get_shape()[-1])
    return [total, mean]


ROW_BODIES: dict[str, Callable[..., Any]] = {
    "softmax": softmax,
    "layer_norm": layer_norm,
    "add_and_norm": add_and_norm,
}


def sum_error(terms: int) -> float:
    """The relative error of a sum of positive terms in f32, whatever the order."""
    return terms * EPSILON["f32"] / 2


def softmax_bound(x: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Rounding the shifted exponent moves the result by as much as the exponent's own size; exp
    errs by 4 ulp at most, in the numerator and in the sum; division by half an ulp.
    """
    wide = x.astype(np.float64)
    shifted = np.abs(wide - wide.max(-1, keepdims=True)).max(-1, keepdims=True)
    unit = EPSILON["f32"]
    return want * (unit * (shifted + 9) + sum_error(x.shape[-1])) + 1e-37


def layer_norm_bound(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray, want: np.ndarray
) -> np.ndarray:
    """The mean errs by the sum's error; so does each centred value, and the variance by twice that
    over the deviation, and by its own sum's error.
    """
    wide, unit, count = x.astype(np.float64), EPSILON["f32"], x.shape[-1]
    mean_error = sum_error(count + 2) * np.abs(wide).mean(-1, keepdims=True)
    centred = np.abs(wide - wide.mean(-1, keepdims=True))
    deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    centred_error = mean_error + unit * (centred + np.abs(wide))
    relative = centred_error.max(-1, keepdims=True) / deviation + sum_error(count + 8)
    normal = centred_error / deviation + centred / deviation * (relative + 4 * unit)
    return normal * np.abs(w) + unit * (np.abs(want) + np.abs(bias))


def add_and_norm_bound(x: np.ndarray, y: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Half an ulp for the sum of two; for the mean of squares the sum's error and their own."""
    terms = 1 if want.shape == x.shape else x.shape[-1] + 4
    return np.abs(want) * sum_error(terms) * (1 + 1e-6) + 1e-37


ROW_BOUNDS: dict[str, Callable[..., np.ndarray]] = {
    "softmax": softmax_bound,
    "layer_norm": layer_norm_bound,
    "add_and_norm": add_and_norm_bound,
}
"""The largest error of each result, from the inputs and the result."""


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("name", ROW_BODIES)
def test_dependent_reductions_share_one_kernel(name: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape in ((3, 7), (70, 33), (5, 64), (2, 3, 129), (2, 9001), (1, 1)):
        more = {"softmax": [], "add_and_norm": [("f32", shape)]}
        types = [("f32", shape), *more.get(name, [("f32", shape[-1:])] * 2)]
        arrays = [draw(e, s, n) for n, (e, s) in enumerate(types)]
        runs += forms_of(fused_kernel("reduction", types, ROW_BODIES[name]), arrays, str(shape))

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        for one, other in zip(got, want, strict=True):
            bound = ROW_BOUNDS[name](*run.arrays, other)
            assert_near(one, other, bound, f"{name} {run.what}")

    check_all(cl_queue, runs, check)


def test_vectors_pass_the_end_of_an_axis_where_elements_lie_in_line(cl_queue: Any) -> None:  # noqa: F811
    def turned(b: Any, x: Any, y: Any, w: Any) -> Any:
        return b.sum(b.add(b.mul(x, w), b.transpose(y, [0, 2, 1])), axis=(1, 2))

    def in_order(b: Any, x: Any, y: Any, w: Any) -> Any:
        return b.sum(b.add(b.mul(x, w), b.reshape(y, x.type.get_shape())), axis=(1, 2))

    runs: list[Run] = []
    for count, rows, columns in ((3, 6, 6), (2, 5, 14), (4, 3, 3), (2, 16, 3)):
        shape = (count, rows, columns)
        types = [("i32", shape), ("i32", (count, columns, rows)), ("i32", (rows, 1))]
        arrays = [draw(element, size, n) for n, (element, size) in enumerate(types)]
        for build, in_line in ((turned, columns), (in_order, rows * columns)):
            kernel = fused_kernel("reduction", types, build)
            body = read_body(kernel)
            assert elements_in_line(body, row_space(body)) == in_line
            runs += forms_of(kernel, arrays, str(shape))
    apart = fused_kernel(
        "reduction", [("i32", (3, 2, 7, 5))], lambda b, x: b.sum(x, axis=(0, 2, 3))
    )
    body = read_body(apart)
    assert elements_in_line(body, row_space(body)) == 35
    runs += forms_of(apart, [draw("i32", (3, 2, 7, 5), 1)], "apart")
    check_all(cl_queue, runs, same_values)


@pytest.mark.usefixtures("also_as_spirv")
def test_softmax_down_columns(cl_queue: Any) -> None:  # noqa: F811
    def build(b: Any, x: Any) -> Any:
        shifted = b.exp(b.sub(x, b.max_reduce(x, axis=0, keepdims=True)))
        return b.div(shifted, b.sum(shifted, axis=0, keepdims=True))

    shapes, runs = ((40, 100), (7, 3), (33, 16)), list[Run]()
    for shape in shapes:
        kernel = fused_kernel("reduction", [("f32", shape)], build)
        runs += forms_of(kernel, [draw("f32", shape, 1)], str(shape))
    check_all(cl_queue, runs, lambda run, got, want: assert_near(got[0], want[0], 1e-6, run.what))


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16", "i64", "i32", "u8"])
def test_a_scan_is_the_running_sum(element: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape, axis in (((5, 70), 1), ((5, 70), 0), ((1, 3, 1), 1), ((0, 4), 1), ((4, 0), 1)):
        kernel = fused_kernel(
            "scan", [(element, shape)], lambda b, x, a=axis: b.add(b.running_sum(x, axis=a), 1)
        )
        runs += forms_of(kernel, [draw(element, shape, 2)], f"{axis} of {shape}")

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        axis, wide = int(run.what.split()[0]), np.abs(run.arrays[0].astype(np.float64))
        unit = EPSILON["f64" if element == "f64" else "f32"]
        bound = wide.shape[axis] * unit / 2 * wide.cumsum(axis)
        bound = bound + EPSILON.get(element, 0) * (1 + np.abs(want[0]))
        assert_near(got[0], want[0], bound, f"{element} {run.what}")

    check_all(cl_queue, runs, check)
