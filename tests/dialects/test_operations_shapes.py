"""Types that operations infer, against what they compute, on random shapes; and what they refuse.

The interpreter refuses a value of another shape than inferred, so evaluating is the comparison.
"""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mgn.dialects.mgn.build import OTHER_NAMES, CallError
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.shapes import (
    ShapeError,
    broadcast_shapes,
    normalise_axes,
    reduce_shape,
    row_major_strides,
)
from tests.support.programs import evaluate

SHAPE = st.lists(st.integers(0, 4), max_size=4).map(tuple)
few = settings(max_examples=60, deadline=None)


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.ones(shape, dtype)


@given(st.lists(SHAPE, min_size=1, max_size=3))
@few
def test_broadcasting_is_that_of_numpy(shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast: axis -"):
            broadcast_shapes(*shapes)
    else:
        assert broadcast_shapes(*shapes) == expected


@st.composite
def reductions(draw: st.DrawFn) -> tuple[tuple[int, ...], Any, bool]:
    shape = draw(SHAPE)
    axes = draw(st.sets(st.integers(0, len(shape) - 1)) if shape else st.just(set[int]()))
    signed = [axis - len(shape) * draw(st.booleans()) for axis in axes]
    return shape, draw(st.sampled_from([None, signed])), draw(st.booleans())


@given(reductions())
@few
def test_reductions_of_any_shape_have_the_shape_of_numpy(
    given: tuple[tuple[int, ...], Any, bool],
) -> None:
    shape, axis, keepdims = given
    axes = None if axis is None else tuple(axis)
    wanted = np.sum(np.ones(shape), axis=axes, keepdims=keepdims)
    for name in ("sum", "mean", "var", "max_reduce", "logsumexp"):
        (result,) = evaluate(name, ones(*shape), axis=axis, keepdims=keepdims)
        assert result.shape == wanted.shape
    (total,) = evaluate("sum", ones(*shape), axis=axis, keepdims=keepdims)
    np.testing.assert_array_equal(total, wanted)
    assert reduce_shape(shape, normalise_axes(axes, len(shape)), keepdims) == wanted.shape


@st.composite
def slices(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, int, int]]]:
    shape = draw(SHAPE)
    bound = st.integers(-6, 6)
    return shape, [(draw(bound), draw(bound), draw(st.integers(1, 3))) for _ in shape]


@given(slices())
@few
def test_slices_follow_the_rules_of_numpy(
    given: tuple[tuple[int, ...], list[tuple[int, int, int]]],
) -> None:
    shape, bounds = given
    x = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    starts, stops, steps = ([bound[i] for bound in bounds] for i in range(3))
    (result,) = evaluate("slice", x, starts, stops, steps)
    np.testing.assert_array_equal(result, x[tuple(slice(*bound) for bound in bounds)])


@given(SHAPE, SHAPE)
@few
def test_matmul_accepts_what_numpy_accepts(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    try:
        expected = np.matmul(ones(*left), ones(*right))
    except ValueError:
        with pytest.raises(ShapeError):
            evaluate("matmul", ones(*left), ones(*right))
    else:
        (result,) = evaluate("matmul", ones(*left), ones(*right))
        np.testing.assert_array_equal(result, expected)


@given(SHAPE, st.data())
@few
def test_movement_of_any_shape_agrees_with_numpy(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    x = np.arange(np.prod(shape, dtype=int), dtype=np.int32).reshape(shape)
    perm = data.draw(st.permutations(range(len(shape))))
    padding = [data.draw(st.tuples(st.integers(0, 2), st.integers(0, 2))) for _ in shape]
    repeats = data.draw(st.lists(st.integers(0, 3), max_size=5))
    for (result,), expected in (
        (evaluate("transpose", x, perm), np.transpose(x, perm)),
        (evaluate("pad", x, padding, 7), np.pad(x, padding, constant_values=7) if shape else x),
        (evaluate("flip", x), np.flip(x)),
        (evaluate("tile", x, repeats), np.tile(x, repeats)),
        (evaluate("repeat", x, 2), np.repeat(x, 2)),
        (evaluate("flatten", x), x.ravel()),
        (evaluate("stack", [x, x], axis=-1), np.stack([x, x], axis=-1)),
    ):
        np.testing.assert_array_equal(result, expected)


REFUSED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("add", (ones(2), ones(3)), {}, r"shapes \[2\] and \[3\] do not broadcast: axis -1 differs"),
    ("add", (ones(2), ones(2, dtype=np.int32)), {}, r"f32 and i32; use cast\(x, f32\)"),
    ("exp", (ones(2, dtype=np.int32),), {}, "operand 'x' must be float, not i32"),
    ("sum", (ones(2, dtype=np.bool_),), {}, "operand 'x' must be float or integer, not bool"),
    ("mul", (ones(2), ones(2, dtype=np.bool_)), {}, r"f32 and bool; use cast\(x, f32\), where"),
    ("mul", (ones(2, dtype=np.bool_), ones(2)), {}, r"f32 and bool; use cast\(x, f32\), where"),
    ("add", (ones(2, dtype=np.int32), 0.5), {}, "0.5 is not an i32; use cast"),
    ("add", (ones(2, dtype=np.int8), 300), {}, "300 does not fit i8"),
    ("clamp", (ones(2, dtype=np.int8),), {"max": 300}, "300 does not fit i8"),
    ("where", (ones(2), ones(2), ones(2)), {}, "operand 'condition' must be bool, not f32"),
    ("sum", (ones(2, 3),), {"axis": 2}, "axis 2 is out of range for rank 2"),
    ("sum", (ones(2, 3),), {"axis": [0, -2]}, "name an axis twice"),
    ("argmax", (ones(2, 0),), {"axis": 1}, "empty axis has no index"),
    ("matmul", (ones(2, 3), ones(2, 3)), {}, "inner sizes 3 and 2 differ"),
    ("linear", (ones(2, 3), ones(4, 3), ones(3)), {}, r"b must be \[4\], not \[3\]"),
    ("einsum", ("ij,jk", ones(2, 3)), {}, "2 terms for 1 operands"),
    ("einsum", ("ij,jk", ones(2, 3), ones(4, 5)), {}, "axis 'j' has sizes 3 and 4"),
    ("einsum", ("ij->k", ones(2, 3)), {}, "'k' of the result is in no operand"),
    ("einsum", ("ij->ii", ones(2, 3)), {}, "names an axis twice"),
    ("einsum", ("i", ones(2, 3)), {}, "does not name the 2 axes"),
    ("einsum", ("i1", ones(2, 3)), {}, "not a term of letters"),
    ("reshape", (ones(2, 3), [4, -1]), {}, r"cannot reshape \[2, 3\] to \[4, -1\]"),
    ("reshape", (ones(2, 3), [-1, -1]), {}, "at most one -1"),
    ("transpose", (ones(2, 3), [0, 0]), {}, "not a permutation of 2 axes"),
    ("broadcast_to", (ones(2), [3]), {}, "do not broadcast"),
    ("squeeze", (ones(2, 1),), {"axis": 0}, "cannot squeeze axis 0"),
    ("flatten", (ones(2, 3),), {"start": 1, "end": 0}, "start 1 is after end 0"),
    ("slice", (ones(3), [0], [3], [-1]), {}, "steps must be positive"),
    ("slice", (ones(3, 3), [0], [3]), {}, "for each of 2 axes"),
    ("concat", ([ones(2, 3), ones(3, 3)], 1), {}, r"cannot concat \[2, 3\] and \[3, 3\]"),
    ("stack", ([ones(2), ones(3)],), {}, r"cannot stack \[2\] and \[3\]"),
    ("split", (ones(5), [2, 2]), {}, "do not add up to 5"),
    ("pad", (ones(3), [[-1, 0]]), {}, "must not be negative"),
    ("pad", (ones(3, dtype=np.int32), [[1, 0]], 0.5), {}, "0.5 is not an i32"),
    ("full", ([2], 0.5), {"T": "bool"}, "0.5 is not a bool"),
    ("gather", (ones(0, 2), ones(1, dtype=np.int32)), {}, "gather from an empty axis"),
    ("embedding", (ones(2, dtype=np.int32), ones(3)), {}, "table must be"),
    ("take_along_axis", (ones(2, 3), ones(3, 3, dtype=np.int32)), {}, "differ"),
    ("dynamic_slice", (ones(3), [0], [4]), {}, "do not fit"),
    ("softmax", (ones(2),), {"axis": 1}, "axis 1 is out of range"),
    ("layer_norm", (ones(2, 3), ones(2)), {}, r"w has shape \[2\], which does not end \[2, 3\]"),
    ("group_norm", (ones(2, 3), ones(3), ones(3), 2), {}, "3 channels do not divide into 2"),
    ("batch_norm", (ones(2, 3), *[ones(2)] * 4), {}, "vector of 3 channels"),
    ("rope", (ones(2, 6), 3), {}, "even size 3"),
    *(
        ("rope", (ones(2, 4), 4), {"theta": theta}, "theta must be finite and more than 0")
        for theta in (-1.0, 0.0, float("inf"), float("nan"))
    ),
    ("attention", (*[ones(2, 6)] * 3,), {"heads": 4}, r"not \[…, S, 4 \* head_dim\]"),
    ("attention", (*[ones(2, 6)] * 3,), {"heads": 3, "kv_heads": 2}, "not a multiple"),
    ("attention", (*[ones(2, 6)] * 3, ones(4, 2, 2)), {"heads": 3}, "do not broadcast"),
    ("cross_entropy", (ones(2, 3), ones(3, dtype=np.int32)), {}, r"must have shape \[2\]"),
    ("mse", (ones(2), ones(2)), {"reduction": "max"}, 'not "max"'),
    ("gelu", (ones(2),), {"approx": "erf"}, 'not "erf"'),
    ("huber", (ones(2), ones(2)), {"delta": 0.0}, "delta must be positive"),
    ("cast", (ones(2), "q8_0"), {}, "cannot cast to q8_0"),
]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"), REFUSED, ids=[f"{row[0]}: {row[3]}" for row in REFUSED]
)
def test_an_operation_refuses_what_it_cannot_type(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        evaluate(name, *args, **kwargs)


def test_what_others_call_an_operation_is_the_name_of_none() -> None:
    assert not OTHER_NAMES.keys() & OPERATIONS.keys()
    assert OPERATIONS.keys() >= set(OTHER_NAMES.values())


MISCALLED: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("sofmax", (ones(2),), {}, "unknown operation 'sofmax'; did you mean 'softmax'"),
    ("Relu", (ones(2),), {}, "unknown operation 'Relu'; did you mean 'relu'"),
    ("swish", (ones(2),), {}, "unknown operation 'swish'; did you mean 'silu'"),
    ("cat", (ones(2),), {}, "unknown operation 'cat'; did you mean 'concat'"),
    ("amax", (ones(2),), {}, "unknown operation 'amax'; did you mean 'max_reduce'"),
    ("max", (ones(2),), {"axis": 0}, "no argument 'axis'; did you mean 'max_reduce'"),
    ("min", (ones(2),), {}, "needs 'b'; did you mean 'min_reduce'"),
    ("softmax", (ones(2),), {"axes": 1}, "no argument 'axes'; did you mean 'axis'"),
    ("softmax", (ones(2), 0), {"axis": 1}, "two values for 'axis'"),
    ("exp", (ones(2), 1), {}, "takes at most 1 arguments, got 2"),
    ("reshape", (ones(2),), {}, "needs 'shape'"),
    ("add", (ones(2),), {}, "needs 'b'"),
    ("sum", (ones(2),), {"keepdims": 1}, "'keepdims' must be true or false"),
    ("concat", ([],), {}, "'operands' must be a list of one value or more"),
]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "message"), MISCALLED, ids=[row[3] for row in MISCALLED]
)
def test_a_call_that_does_not_fit_the_signature_is_explained(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], message: str
) -> None:
    with pytest.raises(CallError, match=message):
        evaluate(name, *args, **kwargs)


def test_strides_are_those_of_row_major_order() -> None:
    assert row_major_strides((2, 3, 4)) == (12, 4, 1)
