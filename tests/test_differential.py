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
from lower_fixture import FORMS, expected, fused_kernel, run
from opencl_fixture import cl_queue  # noqa: F401

from mgn.dialects.mgn.operation import OPERATIONS, Kind
from mgn.dialects.types import ELEMENT_TYPES, Family
from mgn.passes.lower_kernels.movement import MOVEMENT_ROWS
from mgn.passes.lower_kernels.scalar import REDUCTION_ROWS, SCALAR_ROWS

ELEMENTS = [name for name, row in ELEMENT_TYPES.items() if row.dtype is not None]
SHAPES: list[tuple[int, ...]] = [(0,), (), (16,), (3, 37), (2, 3, 1031)]
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


def elementwise_cases() -> list[tuple[str, str]]:
    cases: list[tuple[str, str]] = []
    for spec in OPERATIONS.values():
        if spec.kind is Kind.ELEMENTWISE and spec.is_core and spec.name not in ("where", "cast"):
            accepted = spec.operands[0].accepts
            cases += [(spec.name, e) for e in ELEMENTS if ELEMENT_TYPES[e].family in accepted]
    return cases


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


@pytest.mark.parametrize(("name", "element"), elementwise_cases())
def test_an_elementwise_operation_computes_what_the_interpreter_does(
    name: str,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    count = len(OPERATIONS[name].operands)
    for form, device in FORMS.items():
        for number, shape in enumerate(SHAPES if form == "cpu" else SHAPES[-2:]):
            positive = name in POSITIVE
            arrays = [draw(element, shape, number + 9 * i, positive) for i in range(count)]
            if name == "pow" and not ELEMENT_TYPES[element].is_float:
                arrays[1] = (arrays[1] % 5).astype(arrays[1].dtype)
            kernel = fused_kernel(
                "pointwise", [(element, shape)] * count, lambda b, *x: b.call(name, *x)
            )
            (got,) = run(cl_queue, kernel, arrays, device)
            (want,) = expected(kernel, arrays)
            count_of_ulps = 16 if name in ("pow", "tan") else 5
            what = f"{name} {element} {shape} {form}"
            assert_near(got, want, ulps(element, want, count_of_ulps), what)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, 1.5, 1e30, -1e30, 3.0]


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize(
    "name", ["max", "min", "round", "round_tf32", "sign", "mod", "eq", "ne", "lt", "abs"]
)
def test_special_floats_pass_as_the_interpreter_says(
    name: str,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    values = np.array(SPECIAL, np.float64)
    left, right = np.meshgrid(values, values)
    count = len(OPERATIONS[name].operands)
    with np.errstate(all="ignore"):
        arrays = [side.astype(ELEMENT_TYPES[element].dtype) for side in (left, right)][:count]
    kernel = fused_kernel(
        "pointwise", [(element, left.shape)] * count, lambda b, *x: b.call(name, *x)
    )
    for device in FORMS.values():
        (got,) = run(cl_queue, kernel, arrays, device)
        (want,) = expected(kernel, arrays)
        assert_near(got, want, ulps(element, want, 1), name)


@pytest.mark.parametrize("source", ELEMENTS)
def test_a_cast_truncates_saturates_or_wraps(source: str, cl_queue: Any) -> None:  # noqa: F811
    array = draw(source, (5, 37), 3)
    if ELEMENT_TYPES[source].is_float:
        array = np.concatenate([array.ravel(), np.array([300, -300, 1e6, 7e4, -7e4, np.nan, 0.5])])
        array = array.astype(ELEMENT_TYPES[source].dtype)
    for target in ELEMENTS:
        kernel = fused_kernel(
            "pointwise", [(source, array.shape)], lambda b, x, T=target: b.cast(x, T)
        )
        for form, device in FORMS.items():
            (got,) = run(cl_queue, kernel, [array], device)
            (want,) = expected(kernel, [array])
            assert_near(got, want, ulps(target, want, 1), f"{source} → {target} {form}")


@pytest.mark.parametrize("element", ELEMENTS)
def test_where_chooses_elements_with_broadcasting(element: str, cl_queue: Any) -> None:  # noqa: F811
    types = [("bool", (1, 37)), (element, (5, 37)), (element, (5, 1))]
    arrays = [draw(e, s, n) for n, (e, s) in enumerate(types)]
    kernel = fused_kernel("pointwise", types, lambda b, c, x, y: b.where(c, x, y))
    for device in FORMS.values():
        (got,) = run(cl_queue, kernel, arrays, device)
        (want,) = expected(kernel, arrays)
        np.testing.assert_array_equal(got.astype(want.dtype), want)


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


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "u8", "bool"])
@pytest.mark.parametrize("case", MOVEMENTS.values(), ids=MOVEMENTS.keys())
def test_movement_copies_the_right_elements(
    case: tuple[list[tuple[int, ...]], Callable[..., Any]],
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    shapes, build = case
    kernel = fused_kernel("pointwise", [(element, shape) for shape in shapes], build)
    arrays = [draw(element, shape, n) for n, shape in enumerate(shapes)]
    for device in FORMS.values():
        (got,) = run(cl_queue, kernel, arrays, device)
        (want,) = expected(kernel, arrays)
        np.testing.assert_array_equal(got.astype(want.dtype), want)


@pytest.mark.parametrize("ids", ["i64", "i32", "i16", "u8", "u32"])
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_clamps_ids_into_the_axis(ids: str, axis: int, cl_queue: Any) -> None:  # noqa: F811
    numbers = np.array([[0, 3, 200, 5, 1], [2, 2, 100, 0, 4]]).astype(ELEMENT_TYPES[ids].dtype)
    if not ids.startswith("u"):
        numbers[0, 0] = -7
    table = draw("f32", (6, 48), 1)
    kernel = fused_kernel(
        "gather", [("f32", (6, 48)), (ids, (2, 5))], lambda b, t, i: b.gather(t, i, axis=axis)
    )
    for device in FORMS.values():
        (got,) = run(cl_queue, kernel, [table, numbers], device)
        np.testing.assert_array_equal(got, expected(kernel, [table, numbers])[0])


@pytest.mark.parametrize("element", [name for name in ELEMENTS if name != "bool"])
def test_iota_and_full_are_constants_of_their_type(element: str, cl_queue: Any) -> None:  # noqa: F811
    for axis in (0, 1):
        kernel = fused_kernel(
            "pointwise",
            [(element, (7, 16))],
            lambda b, x, axis=axis: b.add(
                b.add(x, b.iota([7, 16], axis=axis, T=element)), b.full([7, 16], 3.0, T=element)
            ),
        )
        array = np.zeros((7, 16), ELEMENT_TYPES[element].dtype)
        for device in FORMS.values():
            (got,) = run(cl_queue, kernel, [array], device)
            np.testing.assert_array_equal(got.astype(float), np.indices((7, 16))[axis] + 3)


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


@pytest.mark.parametrize("element", [name for name in ELEMENTS if name != "bool"])
@pytest.mark.parametrize("name", ["sum", "prod", "max_reduce", "min_reduce"])
def test_a_reduction_computes_what_the_interpreter_does(
    name: str,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    for number, (shape, axes) in enumerate(REDUCED):
        array = draw(element, shape, number)
        if name == "prod" and array.dtype.kind not in "iu":
            array = (1 + array.astype(np.float64) / 4000).astype(array.dtype)
        kernel = fused_kernel(
            "reduction", [(element, shape)], lambda b, x, a=axes: b.call(name, x, axis=list(a))
        )
        (want,) = expected(kernel, [array])
        for form, device in FORMS.items():
            (got,) = run(cl_queue, kernel, [array], device)
            bound: Any = 0
            if array.dtype.kind not in "iu":
                terms = int(np.prod([shape[a] for a in axes]))
                with np.errstate(all="ignore"):
                    magnitude = np.abs(array.astype(np.float64)).sum(axis=tuple(axes))
                unit = EPSILON["f64" if element == "f64" else "f32"]
                scale = magnitude if name == "sum" else np.abs(want)
                bound = terms * unit * scale + EPSILON[element] * np.abs(want)
            assert_near(got, want, bound, f"{name} {element} {shape} {axes} {form}")


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


@pytest.mark.parametrize("name", ROW_BODIES)
@pytest.mark.parametrize("shape", [(3, 7), (70, 33), (5, 64), (2, 3, 129), (2, 9001), (1, 1)])
def test_dependent_reductions_share_one_kernel(
    name: str,
    shape: tuple[int, ...],
    cl_queue: Any,  # noqa: F811
) -> None:
    types = [("f32", shape)]
    types += {"softmax": [], "add_and_norm": [("f32", shape)]}.get(name, [("f32", shape[-1:])] * 2)
    arrays = [draw(e, s, n) for n, (e, s) in enumerate(types)]
    kernel = fused_kernel("reduction", types, ROW_BODIES[name])
    for form, device in FORMS.items():
        for got, want in zip(
            run(cl_queue, kernel, arrays, device), expected(kernel, arrays), strict=True
        ):
            assert_near(got, want, ROW_BOUNDS[name](*arrays, want), f"{name} {shape} {form}")


def test_softmax_down_columns(cl_queue: Any) -> None:  # noqa: F811
    def build(b: Any, x: Any) -> Any:
        shifted = b.exp(b.sub(x, b.max_reduce(x, axis=0, keepdims=True)))
        return b.div(shifted, b.sum(shifted, axis=0, keepdims=True))

    for shape in ((40, 100), (7, 3), (33, 16)):
        array = draw("f32", shape, 1)
        kernel = fused_kernel("reduction", [("f32", shape)], build)
        for form, device in FORMS.items():
            (got,) = run(cl_queue, kernel, [array], device)
            assert_near(got, expected(kernel, [array])[0], 1e-6, f"{shape} {form}")


@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16", "i64", "i32", "u8"])
def test_a_scan_is_the_running_sum(element: str, cl_queue: Any) -> None:  # noqa: F811
    for shape, axis in (((5, 70), 1), ((5, 70), 0), ((1, 3, 1), 1), ((0, 4), 1), ((4, 0), 1)):
        array = draw(element, shape, 2)
        kernel = fused_kernel(
            "scan", [(element, shape)], lambda b, x, a=axis: b.add(b.running_sum(x, axis=a), 1)
        )
        (want,) = expected(kernel, [array])
        for form, device in FORMS.items():
            (got,) = run(cl_queue, kernel, [array], device)
            magnitude = np.abs(array.astype(np.float64)).cumsum(axis)
            unit = EPSILON["f64" if element == "f64" else "f32"]
            bound = shape[axis] * unit / 2 * magnitude
            bound = bound + EPSILON.get(element, 0) * (1 + np.abs(want))
            assert_near(got, want, bound, f"{element} {shape} {axis} {form}")


PRODUCTS: list[tuple[tuple[int, ...], tuple[int, ...], bool, bool]] = [
    ((64, 57), (57, 70), False, False),
    ((64, 57), (70, 57), False, True),
    ((57, 64), (57, 70), True, False),
    ((57, 64), (70, 57), True, True),
    ((1, 1), (1, 1), False, False),
    ((1, 100), (100, 300), False, False),
    ((1, 100), (300, 100), False, True),
    ((300, 100), (100, 1), False, False),
    ((7, 3), (3, 5), False, False),
    ((40, 0), (0, 20), False, False),
    ((2, 3, 33, 20), (3, 20, 17), False, False),
    ((3, 17, 40), (2, 1, 50, 40), False, True),
    ((100,), (100, 30), False, False),
    ((30, 100), (100,), False, False),
    ((100,), (100,), False, False),
    ((129, 600), (600, 257), False, False),
    ((260, 530), (131, 530), False, True),
    ((530, 140), (530, 131), True, False),
]


def check_product(
    queue: Any, element: str, case: tuple[tuple[int, ...], tuple[int, ...], bool, bool]
) -> None:
    left, right, transpose_a, transpose_b = case
    arrays = [draw(element, left, 1), draw(element, right, 2)]
    kernel = fused_kernel(
        "contraction",
        [(element, left), (element, right)],
        lambda b, x, y: b.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b),
    )
    (want,) = expected(kernel, arrays)
    a, c = (np.abs(array.astype(np.float64)) for array in arrays)
    a = np.swapaxes(a, -1, -2) if transpose_a else a
    c = np.swapaxes(c, -1, -2) if transpose_b else c
    unit = EPSILON["f64" if element == "f64" else "f32"]
    bound = a.shape[-1] * unit * (a @ c) + EPSILON.get(element, 0) * np.abs(want)
    for form, device in FORMS.items():
        (got,) = run(queue, kernel, arrays, device)
        assert_near(got, want, bound, f"matmul {element} {case} {form}")


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
def test_a_matmul_of_any_shape_is_right(case: Any, cl_queue: Any) -> None:  # noqa: F811
    check_product(cl_queue, "f32", case)


@pytest.mark.parametrize("element", ["f64", "f16", "bf16", "i64", "i32", "i8", "u8"])
def test_a_matmul_of_any_element_type_is_right(element: str, cl_queue: Any) -> None:  # noqa: F811
    for case in (PRODUCTS[0], PRODUCTS[1], PRODUCTS[2], PRODUCTS[8]):
        check_product(cl_queue, element, case)


def test_a_matmul_takes_prologues_and_epilogues(cl_queue: Any) -> None:  # noqa: F811
    def build(b: Any, x: Any, y: Any, bias: Any, residual: Any) -> Any:
        product = b.matmul(b.relu(x), b.reshape(y, [48, 70]))
        activated = b.gelu(b.add(product, bias))
        return [b.add(activated, residual), b.reshape(b.mul(product, 2.0), [10, 70, 5])]

    types = [("f32", (50, 48)), ("f32", (48, 7, 10)), ("f32", (70,)), ("f32", (50, 70))]
    arrays = [draw(e, s, n) for n, (e, s) in enumerate(types)]
    kernel = fused_kernel("contraction", types, build)
    for form, device in FORMS.items():
        for got, want in zip(
            run(cl_queue, kernel, arrays, device), expected(kernel, arrays), strict=True
        ):
            bound = 48 * EPSILON["f32"] * 4 * 48 + ulps("f32", want, 8)
            assert_near(got, want, bound, form)


def test_a_convolution_is_a_matmul_read_through_an_index_map(cl_queue: Any) -> None:  # noqa: F811
    """Three taps along rows: shifted slices of a padded image, side by side, times a matrix."""

    def build(b: Any, x: Any, w: Any) -> Any:
        padded = b.pad(x, [[1, 1], [0, 0]], 0.0)
        taps = [b.slice(padded, [k, 0], [k + 30, 16]) for k in range(3)]
        return b.matmul(b.concat(taps, axis=1), w)

    types = [("f32", (30, 16)), ("f32", (48, 20))]
    arrays = [draw(e, s, n) for n, (e, s) in enumerate(types)]
    kernel = fused_kernel("contraction", types, build)
    for form, device in FORMS.items():
        (got,) = run(cl_queue, kernel, arrays, device)
        assert_near(got, expected(kernel, arrays)[0], 48 * EPSILON["f32"] * 4 * 48, form)
