"""What a program may give: each value as a set, by the error analysis of its own operations.

In: a graph, with arrays for its inputs and parameters. Out: `Floats` or `Discrete` by the name of
each result. Every operation of the core is computed on intervals whose ends are in f64, and widened
by `ALLOWED` times the error of its element type: half an ulp for correctly rounded ones, the ulps
that OpenCL allows for built-in functions, the bound of any order of summation for sums. So a
device's result must lie inside, whichever equal form was compiled. Composites are their
decompositions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.elements.elementwise import round_to_tf32, saturating_cast
from mgn.dialects.mgn.operations.elements.error_function import erf
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, ReturnOp
from mgn.dialects.types import ELEMENT_TYPES, ElementType, element_of
from tests.fuzz import intervals
from tests.fuzz.intervals import Array, Discrete, Floats, Values
from tests.fuzz.orders import counted, ordered, scattered
from tests.fuzz.sums import (
    Precision,
    in_parts,
    matrix_product,
    product_over,
    running_product_of,
    running_sum_of,
    sum_over,
)
from tests.support.ulps import FUNCTION_ULPS

Environment = dict[SSAValue, Values]

ROOTS_AND_QUOTIENTS: dict[str, dict[str, float]] = {
    "sqrt": {"f32": FUNCTION_ULPS["sqrt"]}, "rsqrt": {"f32": 4, "f64": 2},
    "recip": {"f32": 2.5}, "div": {"f32": 2.5},
}  # fmt: skip
"""Errors that OpenCL allows beyond half an ulp, which differ between types: division and square
root are correctly rounded in double precision; `rsqrt` is a root and a quotient. Other functions
have theirs in `FUNCTION_ULPS`.
"""

_LEAST_NORMAL = {"exp", "expm1", "pow", "div", "recip", "rsqrt"}
"""Built-in functions whose subnormal results a device may flush."""

UNARY: dict[str, Callable[[Floats], Floats]] = {
    "exp": intervals.monotone(np.exp), "expm1": intervals.monotone(np.expm1),
    "log": intervals.monotone(np.log, 0.0), "log1p": intervals.monotone(np.log1p, -1.0),
    "sqrt": intervals.monotone(np.sqrt, 0.0), "rsqrt": intervals.inverse_root,
    "recip": intervals.reciprocal, "sin": intervals.wave(np.sin), "cos": intervals.wave(np.cos),
    "tan": intervals.tangent, "tanh": intervals.monotone(np.tanh), "erf": intervals.monotone(erf),
}  # fmt: skip
"""Built-in functions, whose results are rounded."""

EXACT_UNARY: dict[str, Callable[[Floats], Floats]] = {
    "neg": intervals.negative, "abs": intervals.absolute, "sign": intervals.monotone(np.sign),
    "floor": intervals.monotone(np.floor), "ceil": intervals.monotone(np.ceil),
    "round": intervals.monotone(np.rint),
    "identity": lambda x: x, "stop_gradient": lambda x: x,
}  # fmt: skip
"""Functions that give numbers of the type without rounding."""

BINARY: dict[str, Callable[[Floats, Floats], Floats]] = {
    "add": intervals.total, "sub": intervals.difference, "mul": intervals.product,
    "div": intervals.quotient, "pow": intervals.power, "mod": intervals.remainder,
}  # fmt: skip
EXACT_BINARY = {"max": intervals.larger, "min": intervals.smaller}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


OVER_AXES: dict[str, Callable[..., Floats]] = {
    "sum": sum_over, "prod": product_over, "running_sum": running_sum_of,
    "running_product": running_product_of,
}  # fmt: skip
RUNNING_IN_PARTS = {
    "running_sum_in_parts": running_sum_of, "running_product_in_parts": running_product_of,
}  # fmt: skip


class Bounds:
    """Evaluates graphs on sets of values. `precision` is what operands of products round to."""

    def __init__(self, parameters: Mapping[str, Array], precision: str = "f32") -> None:
        self.parameters = parameters
        self.precision = Precision.of(precision)

    def run(self, graph: GraphOp, inputs: Mapping[str, Array]) -> dict[str, Values]:
        """The sets of a graph's results."""
        names = zip(graph.input_names, graph.block.args, strict=True)
        environment: Environment = {
            argument: intervals.exactly(inputs[name]) for name, argument in names
        }
        with np.errstate(all="ignore"):
            returned = self._block(graph.block, environment)
        return dict(zip(graph.result_names, returned, strict=True))

    def _block(self, block: Block, environment: Environment) -> list[Values]:
        for op in block.ops:
            operands = [environment[value] for value in op.operands]
            if isinstance(op, ReturnOp):
                return operands
            results = self._results(op, operands)
            environment.update(zip(op.results, results, strict=True))
        return []

    def _results(self, op: Operation, operands: Sequence[Values]) -> Sequence[Values]:
        if isinstance(op, ConstantOp):
            return [intervals.exactly(op.array)]
        if isinstance(op, ReadOp):
            return [intervals.exactly(self.parameters[op.parameter_name])]
        assert isinstance(op, TensorOp)
        if op.spec.name in ("argmax", "argmin") and isinstance(operands[0], Floats):
            return [_extreme_index(op, operands[0])]
        if op.spec.evaluate is not None:
            return [self._core(op, operands)]
        expansion = decomposition_of(op)
        environment: Environment = dict(zip(expansion.block.args, operands, strict=True))
        self._block(expansion.block, environment)
        results = [environment[value] for value in expansion.results]
        if op.spec.kind is Kind.ELEMENTWISE:
            for result in results:
                _forget_inside(result, operands)
        return results

    def _core(self, op: TensorOp, operands: Sequence[Values]) -> Values:
        name, element = op.spec.name, element_of(op.results[0].type)
        if op.spec.kind is Kind.ELEMENTWISE:
            return _elementwise(op, name, element, operands)
        if op.spec.kind is Kind.CONSTANT:
            return intervals.exactly(op.spec.evaluate(**op.values))  # type: ignore
        if op.spec.kind in (Kind.MOVEMENT, Kind.INDEXING):
            return _moved(op, name, element, operands)
        if op.spec.kind is Kind.SCATTER:
            return scattered(op, operands, element)
        if name == "digit_counts":
            return counted(op, *operands)
        if op.spec.kind is Kind.ORDER:
            return ordered(op, *operands)
        if not all(isinstance(operand, Floats) for operand in operands):
            return _discrete(op, operands)
        floats = [operand for operand in operands if isinstance(operand, Floats)]
        return self._reduced(op, name, element, floats)

    def _reduced(
        self, op: TensorOp, name: str, element: ElementType, floats: Sequence[Floats]
    ) -> Floats:
        if name == "matmul":
            return matrix_product(floats[0], floats[1], element, self.precision, **op.values)
        if name in ("max_reduce", "min_reduce"):
            return _extreme_over(op, floats[0])
        if name in RUNNING_IN_PARTS:
            return in_parts(RUNNING_IN_PARTS[name], *floats, element, **op.values)
        return OVER_AXES[name](floats[0], element, **op.values)


def _forget_inside(result: Values, operands: Sequence[Values]) -> None:
    """Of an elementwise composite, what is infinite inside it says nothing where its result is not:
    the overflow of sigmoid's exponential gives the right limit.
    """
    if isinstance(result, Floats):
        wild = result.unbounded
        for operand in operands:
            wild = wild | operand.wild
        result.wild = np.broadcast_to(wild, result.shape)


def _elementwise(
    op: TensorOp, name: str, element: ElementType, operands: Sequence[Values]
) -> Values:
    if name == "cast":
        return _cast(operands[0], element)
    if name == "where":
        condition, a, b = operands
        assert isinstance(condition, Discrete)
        if isinstance(a, Floats) and isinstance(b, Floats):
            return intervals.chosen(condition, a, b)
        return _chosen_discrete(condition, a, b)
    floats = [operand for operand in operands if isinstance(operand, Floats)]
    if not floats:
        return _logical(op, name, operands)
    if name == "isnan":
        x = floats[0]
        return Discrete(x.nan, x.nan & ~x.empty, x.wild)
    if name in COMPARISONS:
        return intervals.compared(name, *floats)
    if name == "round_tf32":
        dtype = np.float64 if element.name == "f64" else np.float32
        return intervals.monotone(lambda a: round_to_tf32(a.astype(dtype)).astype(float))(floats[0])
    if name in EXACT_UNARY:
        return EXACT_UNARY[name](*floats)
    if name in EXACT_BINARY:
        return EXACT_BINARY[name](*floats)
    result = UNARY[name](*floats) if name in UNARY else BINARY[name](*floats)
    return _rounded(result, name, element)


def _rounded(result: Floats, name: str, element: ElementType) -> Floats:
    """Half precision computes in f32 and rounds once."""
    wide = ELEMENT_TYPES["f32"] if element.bits == 16 else element
    if name in ROOTS_AND_QUOTIENTS:
        ulps = ROOTS_AND_QUOTIENTS[name].get(wide.name, 0.0)
    else:
        ulps = FUNCTION_ULPS[name] if name in UNARY else FUNCTION_ULPS.get(name, 0.0)
    low, high = result.lo >= 0, result.hi <= 0
    result = intervals.rounded(result, wide, ulps, name in _LEAST_NORMAL)
    result = intervals.rounded(result, element) if wide is not element else result
    if name not in ("add", "sub", "mod"):  # whose signs are those of the exact results
        result.lo = np.where(low & ~result.empty, np.maximum(result.lo, 0.0), result.lo)
        result.hi = np.where(high & ~result.empty, np.minimum(result.hi, 0.0), result.hi)
    return result


def _cast(x: Values, element: ElementType) -> Values:
    assert element.dtype is not None
    if isinstance(x, Discrete):
        value = saturating_cast(x.value, element.dtype)
        if not element.is_float:
            return Discrete(value, x.unsure, x.wild)
        exact = intervals.exactly(value)
        assert isinstance(exact, Floats)
        off = ~np.isclose(value.astype(np.float64), x.value.astype(np.float64), rtol=0, atol=0)
        result = intervals.rounded(exact, element) if off.any() else exact
        most = float(np.iinfo(x.value.dtype).max) if x.value.dtype.kind != "b" else 1.0
        result.lo = np.where(x.unsure, -most - 1, result.lo)
        result.hi = np.where(x.unsure, most + 1, result.hi)
        result = intervals.held(result, element)
        result.wild = result.wild | x.wild
        return result
    if element.is_float:
        fits = _held(x.lo, element) & _held(x.hi, element)
        wider = intervals.rounded(x, element)
        parts = (
            np.where(fits, one, other) for one, other in zip(x.parts, wider.parts, strict=True)
        )
        return Floats(*parts)
    if element.name == "bool":
        zero = (x.lo <= 0) & (x.hi >= 0)
        surely = (x.lo == 0) & (x.hi == 0) & ~x.nan
        return Discrete(~zero, zero & ~surely, x.wild)
    low, high = (saturating_cast(end, element.dtype) for end in (x.lo, x.hi))
    zero_too = x.nan & ((low != 0) | (high != 0)) & ~x.empty
    value = np.where(x.empty, np.zeros_like(low), low)
    return Discrete(value, ((low != high) & ~x.empty) | zero_too, x.wild)


def _held(array: Array, element: ElementType) -> Array:
    """Whether an element type has each of these numbers."""
    return array.astype(element.dtype).astype(np.float64) == array


def _discrete(op: TensorOp, operands: Sequence[Values]) -> Discrete:
    """An operation on integers: unsure wherever an operand of an element is."""
    arrays = [operand.value for operand in operands if isinstance(operand, Discrete)]
    value = np.asarray(op.spec.evaluate(*op.spec.split_operands(arrays), **op.values))  # type: ignore
    items = [operand for operand in operands if isinstance(operand, Discrete)]
    if op.spec.kind is Kind.ELEMENTWISE:
        masks = (
            np.logical_or.reduce(np.broadcast_arrays(*parts))
            for parts in ([item.unsure for item in items], [item.wild for item in items])
        )
    else:
        masks = (
            np.asarray(any(part.any() for part in parts))
            for parts in ([item.unsure for item in items], [item.wild for item in items])
        )
    return Discrete(value, *(np.broadcast_to(mask, value.shape) for mask in masks))


def _logical(op: TensorOp, name: str, operands: Sequence[Values]) -> Discrete:
    """Integers and bools; a conjunction with what is false is sure, as with a disjunction."""
    result = _discrete(op, operands)
    if name in ("logical_and", "logical_or"):
        decides = name == "logical_or"
        for operand in operands:
            assert isinstance(operand, Discrete)
            sure = ~operand.unsure & (operand.value == decides)
            result.unsure = result.unsure & ~sure
            result.value = np.where(sure, decides, result.value)
    return result


def _chosen_discrete(condition: Discrete, a: Values, b: Values) -> Discrete:
    assert isinstance(a, Discrete) and isinstance(b, Discrete)
    value, unsure, wild = (
        np.where(condition.value, one, other)
        for one, other in ((a.value, b.value), (a.unsure, b.unsure), (a.wild, b.wild))
    )
    doubtful = condition.unsure & ((a.value != b.value) | a.unsure | b.unsure)
    return Discrete(value, unsure | doubtful, wild | condition.wild)


def _moved(op: TensorOp, name: str, element: ElementType, operands: Sequence[Values]) -> Values:
    """Movement of all parts of a set alike."""
    first = operands[0]
    ids: list[Any] = []
    where: Discrete | None = None
    if name == "run_bounds":
        return _discrete(op, operands)
    if name == "gather":
        assert isinstance(operands[1], Discrete)
        where, operands = operands[1], operands[:1]
        ids = [where.value]
    grouped = op.spec.operands[0].variadic
    fills: tuple[Any, ...] = (None,) * 4
    if name == "pad":
        fills = _fills(op.values["value"], element)

    def move(arrays: Sequence[Array], fill: Any = None) -> Array:
        values = dict(op.values)
        if name == "pad":
            if not values["padding"]:
                return arrays[0]
            return np.pad(arrays[0], values["padding"], constant_values=fill)
        given = [list(arrays)] if grouped else list(arrays)
        return np.asarray(op.spec.evaluate(*given, *ids, **values))  # type: ignore

    if isinstance(first, Floats):
        floats = [operand for operand in operands if isinstance(operand, Floats)]
        parts = zip(*(item.parts for item in floats), strict=True)
        result = Floats(*(move(part, fill) for part, fill in zip(parts, fills, strict=True)))
    else:
        items = [operand for operand in operands if isinstance(operand, Discrete)]
        filler = None if name != "pad" else np.asarray(op.values["value"]).astype(first.value.dtype)
        value = move([item.value for item in items], filler)
        unsure, wild = [item.unsure for item in items], [item.wild for item in items]
        result = Discrete(value, move(unsure, False), move(wild, False))
    return _read_at(op.values["axis"], first, where, result) if where is not None else result


def _read_at(axis: int, x: Values, ids: Discrete, result: Values) -> Values:
    """What is read at ids that are not sure is any element."""
    after = len(x.shape) - axis - 1
    unsure, wild = (
        np.broadcast_to(part.reshape((*part.shape, *(1,) * after)), result.shape)
        for part in (ids.unsure, ids.wild)
    )
    if isinstance(result, Discrete):
        return Discrete(result.value, result.unsure | unsure, result.wild | wild)
    parts = zip(intervals.anything(result.shape).parts, result.parts, strict=True)
    read = Floats(*(np.where(unsure, one, other) for one, other in parts))
    read.wild = result.wild | wild
    return read


def _fills(value: float, element: ElementType) -> tuple[float, float, bool, bool]:
    held = float(np.asarray(value, element.dtype)) if element.is_float else float(value)
    return (np.inf, -np.inf, True, False) if held != held else (held, held, False, False)


def _extreme_over(op: TensorOp, x: Floats) -> Floats:
    evaluate = op.spec.evaluate
    assert evaluate is not None
    axis, keepdims = op.values["axis"], op.values["keepdims"]
    empty, nan, wild = (
        np.any(part, axis=axis, keepdims=keepdims) for part in (x.empty, x.nan, x.wild)
    )
    lo = np.where(empty, np.inf, evaluate(x.lo, **op.values))
    hi = np.where(empty, -np.inf, evaluate(x.hi, **op.values))
    return Floats(lo, hi, nan, wild)


def _extreme_index(op: TensorOp, x: Floats) -> Discrete:
    """The position of an extreme element: sure where all are known, or one is far ahead."""
    axis = op.values["axis"]
    assert isinstance(op.results[0].type, TensorType)
    shape = op.results[0].type.get_shape()
    if op.spec.name == "argmin":
        x = intervals.negative(x)
    kept = [n for n in range(len(x.shape)) if n not in axis]
    moved = [np.transpose(part, (*kept, *axis)) for part in (x.lo, x.hi, x.nan, x.known)]
    outer = tuple(x.shape[n] for n in kept)
    lo, hi, nan, known = (
        part.reshape((*outer, math.prod(x.shape[n] for n in axis))) for part in moved
    )
    plain = np.where(lo > hi, np.inf, lo)
    exact = np.argmax(np.where(lo > hi, np.nan, lo), axis=-1) if lo.size else np.zeros(outer, int)
    if not lo.size:
        return intervals.settled(exact.astype(np.int32).reshape(shape))
    best = np.argmax(plain, axis=-1)
    ahead = np.take_along_axis(plain, best[..., None], -1)
    others = np.where(np.arange(lo.shape[-1]) == best[..., None], -np.inf, hi)
    alone = (ahead[..., 0] > others.max(-1)) & ~nan.any(-1)
    all_known = known.all(-1)
    value = np.where(all_known, exact, best).astype(np.int32)
    wild = np.any(x.wild, axis=axis).reshape(shape)
    return Discrete(value.reshape(shape), ~(all_known | alone).reshape(shape), wild)
