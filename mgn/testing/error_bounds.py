"""How far off a program's own arithmetic may be: what another way to compute it is measured by.

In: a graph and arrays. Out: its results in f64, and, for each element, a bound of the error of
computing it in the declared element types.

Each operation that rounds is taken to be off by one unit of its result's element type, or by four
where it is no basic arithmetic. Sums and products of tensors are off in each term as well. What is
smaller than the smallest normal number may become 0, as devices may flush it. The bound is the
largest distance that such errors make over a number of evaluations in f64, each with its own
choice of signs. Rounding is not counted where an operation only moves, compares or selects.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from xdsl.ir import Operation

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.steps import ReadyGraph, Step
from mgn.dialects.types import ElementType, element_of

Array = np.ndarray

UNITS = {"f64": 2.0**-52, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}
"""How far off one rounding is, relative to its result. f64 has twice its own unit: the exact values
are in f64 themselves.
"""
BASIC = frozenset({"add", "sub", "mul", "div", "sqrt", "cast", "sum", "prod", "matmul"})
"""Operations that round once; others may be off by more, as OpenCL allows."""
LOOSE = 4
UNROUNDED = frozenset(
    {"neg", "abs", "sign", "max", "min", "where", "identity", "stop_gradient", "floor", "ceil"}
    | {"round", "round_tf32", "max_reduce", "min_reduce", "mod"}
)
"""Elementwise operations and reductions whose results are values that are there already, or exact.
"""
SUMMING = (Kind.REDUCTION, Kind.SCAN, Kind.SCATTER, Kind.CONTRACTION)
PERTURBATIONS = 24


def unit_of(element: ElementType) -> float:
    """How far off one rounding to an element type is; 0 where it has none."""
    return UNITS.get(element.name, 0.0)


def smallest_normal(element: ElementType) -> float:
    """The smallest number of a float type that no device flushes to 0."""
    return float(ml_dtypes.finfo(element.dtype).smallest_normal)


class PerturbedInterpreter(Interpreter):
    """Computes in f64, and is off by as much as the declared types round; `signs` says how: all up,
    all down, or at random.
    """

    def __init__(
        self,
        parameters: Mapping[str, Array],
        rng: np.random.Generator,
        signs: Sequence[float],
        unit: float | None = None,
    ) -> None:
        super().__init__(parameters, wide=True)
        self.rng = rng
        self.signs = signs
        self.unit = unit
        self._roundings: dict[Step, _Rounding | None] = {}

    def _compute(self, step: Step, operands: Sequence[Array]) -> Sequence[Array]:
        rounding = self._rounding_of(step)
        if rounding is not None and rounding.terms is not None:
            unit = min(unit_of(rounding.terms), UNITS["f32"])
            operands = [self._off(array, unit, rounding.terms) for array in operands]
        return super()._compute(step, operands)

    def _results(self, step: Step, operands: Sequence[Array]) -> list[Array]:
        results = super()._results(step, operands)
        rounding = self._rounding_of(step)
        if rounding is None:
            return results
        return [
            self._off(array, rounding.loose * unit_of(element), element)
            if element.is_float
            else array
            for array, element in zip(results, rounding.elements, strict=True)
        ]

    def _rounding_of(self, step: Step) -> "_Rounding | None":
        """How an operation rounds, if it does; found once."""
        if step not in self._roundings:
            self._roundings[step] = _rounding_of(step.op)
        return self._roundings[step]

    def _off(self, array: Array, unit: float, element: ElementType) -> Array:
        """An array whose elements are off by a unit each. Those below the smallest normal number
        are off by the smallest subnormal, and some of them become 0.
        """
        unit = unit if self.unit is None else self.unit
        off = array * (1 + unit * self._drawn(self.signs, array.shape))
        small = (array != 0) & (np.abs(array) < smallest_normal(element))
        if not small.any():
            return off
        least = float(ml_dtypes.finfo(element.dtype).smallest_subnormal)
        kept = self._drawn((0.0, 1.0), array.shape) * array
        return np.where(small, kept + least * self._drawn(self.signs, array.shape), off)

    def _drawn(self, among: Sequence[float], shape: tuple[int, ...]) -> Array:
        """What `rng.choice` draws, which takes several times as long for a few elements."""
        return np.asarray(among)[self.rng.integers(0, len(among), shape)]


class _Rounding(NamedTuple):
    """How an operation rounds: the element types of its results, by how many units, and the element
    type of the terms, where it sums floats.
    """

    elements: list[ElementType]
    loose: int
    terms: ElementType | None


def _rounding_of(op: Operation) -> _Rounding | None:
    if not isinstance(op, TensorOp) or not _rounds(op):
        return None
    elements = [element_of(result.type) for result in op.results]
    sums = op.spec.kind in SUMMING and elements[0].is_float
    loose = 1 if op.spec.name in BASIC else LOOSE
    return _Rounding(elements, loose, elements[0] if sums else None)


def _rounds(op: TensorOp) -> bool:
    """Whether an operation, which no decomposition computes, rounds its result."""
    spec = op.spec
    if spec.evaluate is None or spec.name in UNROUNDED:
        return False
    if spec.name == "cast":
        given, made = (element_of(value.type) for value in (op.operands[0], op.results[0]))
        return not given.is_float or unit_of(given) < unit_of(made)
    return spec.kind is Kind.ELEMENTWISE or spec.kind in SUMMING


def error_bounds(
    graph: ReadyGraph,
    inputs: Mapping[str, Array],
    parameters: Mapping[str, Array],
    exact: Array,
    seed: int = 0,
    unit: float | None = None,
    states: Mapping[str, Array] | None = None,
) -> Iterator[Array]:
    """Bounds of the error of a graph's one result, each at least the one before: after more and
    more evaluations, which all find the same in `states`. `unit` stands in for those of the element
    types.
    """
    rng = np.random.default_rng(seed)
    bound = np.zeros(exact.shape)
    interpreter = PerturbedInterpreter(parameters, rng, (-1.0, 1.0), unit)
    for number in range(PERTURBATIONS):
        interpreter.states = dict(states or {})
        interpreter.signs = [(1.0,), (-1.0,)][number] if number < 2 else (-1.0, 1.0)
        (value,) = interpreter.run(graph, inputs).values()
        with np.errstate(all="ignore"):
            distance = np.abs(value.astype(np.float64) - exact)
        bound = np.maximum(bound, np.where(np.isnan(distance), np.inf, distance))
        yield bound


class OverflowInterpreter(Interpreter):
    """Computes in the declared types, and notes what is not finite though its operands are: the
    elements that an overflow, a division by 0 or a logarithm of 0 has a part in.
    """

    def __init__(self, parameters: Mapping[str, Array]) -> None:
        super().__init__(parameters)
        self._marks: dict[int, tuple[Array, Array]] = {}

    def overflowed(self, array: Array) -> Array:
        """Which elements of a value are not to be relied on."""
        mark = self._marks.get(id(array))
        return mark[1] if mark is not None else np.zeros(array.shape, bool)

    def _results(self, step: Step, operands: Sequence[Array]) -> list[Array]:
        results = super()._results(step, operands)
        if step.evaluate is None:
            return results
        marks = [self.overflowed(array) for array in operands]
        for array in results:
            mark = _made(step, operands, array) | self._passed_on(step, marks, array.shape)
            if mark.any():
                self._marks[id(array)] = (array, mark)
        return results

    def _passed_on(self, step: Step, marks: Sequence[Array], shape: Any) -> Array:
        """The elements that marked elements of the operands have a part in."""
        if not any(mark.any() for mark in marks):
            return np.zeros(shape, bool)
        if step.spec.kind is Kind.ELEMENTWISE:
            return np.logical_or.reduce([np.broadcast_to(mark, shape) for mark in marks])
        if step.spec.kind is Kind.REDUCTION:
            return np.asarray(np.any(marks[0], **step.attributes))
        return np.ones(shape, bool)


def _made(step: Step, operands: Sequence[Array], result: Array) -> Array:
    """The elements that are not finite, though all that they are computed from is."""
    finite = [_is_finite(array) for array in operands]
    made = ~_is_finite(result)
    if step.spec.kind is Kind.REDUCTION:
        return made & np.asarray(np.all(finite[0], **step.attributes))
    if step.spec.kind is Kind.ELEMENTWISE:
        for one in finite:
            made = made & one
        return made
    return made if step.spec.kind in SUMMING else np.zeros(result.shape, bool)


def _is_finite(array: Array) -> Array:
    return np.isfinite(array) if array.dtype.kind not in "iub" else np.ones(array.shape, bool)
