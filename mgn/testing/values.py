"""What the e-nodes of a small saturated graph come to on random inputs, and where two that a rule
made equal differ.

In: a graph and its saturated e-graph. Out: whether all e-nodes of each class have one value, or a
`Difference`. Values are compared in four ways, which `Compared` names.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, partial
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import OPERATIONS, TensorOp
from mgn.dialects.mgn.steps import ReadyGraph, Step
from mgn.dialects.mgn.structure import GraphOp, array_of
from mgn.dialects.types import element_of, tensor
from mgn.passes.saturate.egraph.engine import ClassNode, SaturatedGraph
from mgn.passes.saturate.encoding.facts import Leaf
from mgn.passes.saturate.rules.rule import RuleClass
from mgn.testing.draws import draw_bits, draw_magnitudes, draw_plain, put_beside
from mgn.testing.error_bounds import (
    PERTURBATIONS,
    UNITS,
    OverflowInterpreter,
    PerturbedInterpreter,
    error_bounds,
    unit_of,
)

WIDE_TOLERANCE = 1e-9
"""Of two orders of at most some tens of operations in f64, on values of order 1."""
ROUNDED_TOLERANCE = 2e-6
"""Where a constant was rounded to f32; half precision is not asked."""
ALLOWED = 8.0
"""How many times the bound of the left side's error the right side's may be."""
REAL_UNIT = 2.0**-33
"""What stands for a rounding where two ways to compute are compared over the reals: f64 has 20 bits
more, so that where one of them cancels it still shows whether they are the same.
"""
NAMED = 8
"""How many elements of a constant are drawn as values, too."""
SMALLEST = float(np.finfo(np.float64).smallest_normal)
"""Below it f64 loses digits."""
LEAST = float(np.finfo(np.float64).smallest_subnormal)
"""How far zeros of both signs are apart."""


class Compared(StrEnum):
    """How two sides were compared."""

    NEARLY = "with floats in f64"
    TO_THE_BIT = "to the bit, in the declared types"
    TO_THE_BOUND = "by their errors, in the declared types"
    OVER_THE_REALS = "with floats in f64, of any magnitude"


@dataclass(frozen=True)
class Difference:
    """Two arrays that a rule equates and that differ: the left side's first, where `sided`.
    `inputs` are those of the graph, `wrong` says which elements differ by more than they may,
    `bound` how far off the left side may be by itself.
    """

    left: np.ndarray
    right: np.ndarray
    sided: bool
    how: Compared
    inputs: tuple[np.ndarray, ...]
    wrong: np.ndarray | None = None
    bound: np.ndarray | None = None

    @property
    def place(self) -> tuple[int, ...]:
        """The element where they are furthest apart, of those that differ by more than they may."""
        distance = self._distances
        return tuple(int(i) for i in np.unravel_index(int(distance.argmax()), distance.shape))

    @property
    def count(self) -> int:
        """In how many elements they differ by more than they may."""
        return int(np.count_nonzero(self._distances))

    @property
    def _distances(self) -> np.ndarray:
        distance = _distance(self.left, self.right)
        return distance if self.wrong is None else np.where(self.wrong, distance, 0.0)

    @property
    def of_floats(self) -> bool:
        """Whether the result or an input is a float: integers have no roundings."""
        return any(array.dtype.kind not in "iub" for array in (*self.inputs, self.left))

    @property
    def is_rounding(self) -> bool:
        """Whether they agree but for what a constant's rounding makes, which of values of any
        magnitude is a share of each.
        """
        least = ROUNDED_TOLERANCE if self.how is Compared.NEARLY else 0.0
        return _is_near(self.left, self.right, ROUNDED_TOLERANCE, least)


def _distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How far apart elements are: infinitely where one is nan, a little where signs of 0 differ."""
    one, two = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(one - two)
    signs = (np.signbit(one) != np.signbit(two)) & ~np.isnan(one)
    alike = (one == two) | (np.isnan(one) & np.isnan(two))
    apart = np.where(np.isnan(distance), np.inf, distance)
    return np.where(alike, np.where(signs, LEAST, 0.0), apart)


def _is_near(left: np.ndarray, right: np.ndarray, tolerance: float, least: float) -> bool:
    if left.dtype.kind in "iub":
        return bool(np.array_equal(left, right))
    return bool(np.allclose(left, right, rtol=tolerance, atol=least, equal_nan=True))


Entries = list[tuple[ClassNode | None, np.ndarray]]
"""The e-nodes of a class, None for a leaf, and their values."""


class Values:
    """The values of all e-nodes of a small saturated graph, on random inputs. `root` is the handle
    of its result.
    """

    def __init__(self, graph: GraphOp, result: SaturatedGraph, root: int | None = None) -> None:
        self.graph = graph
        self.result = result
        self.rounds = True
        self.largest: dict[str, float] = {}
        self.root = None if root is None else result.class_of[root]
        self.left = None if root is None else self._node_of(root)

    @cached_property
    def _ready(self) -> ReadyGraph:
        """The graph, which is run on many arrays."""
        return ReadyGraph(self.graph)

    @cached_property
    def of_floats(self) -> bool:
        """Whether any value of the e-graph is a float."""
        types = self.result.facts.handle_types
        return any(element_of(types[handle]).is_float for handle in self.result.class_of)

    @property
    def is_empty(self) -> bool:
        """Whether the result has no elements."""
        return 0 in tensor_of(self.graph.results_returned[0].type).get_shape()

    def agree_widely(self, seed: int, equality: RuleClass) -> bool:
        """Whether each class has one value, with all floats in f64; without roundings where the
        sides differ in what they round.
        """
        return self.differ_widely(seed, equality) is None

    def differ_widely(self, seed: int, equality: RuleClass) -> Difference | None:
        """Two values of one class that differ so, if there are any."""
        self.rounds = equality is not RuleClass.ROUNDS
        rounded = equality is RuleClass.APPROXIMATES
        tolerance = ROUNDED_TOLERANCE if rounded else WIDE_TOLERANCE
        arrays = draw_plain(np.random.default_rng(seed), self.types)
        alike = partial(_is_near, tolerance=tolerance, least=tolerance)
        return self._difference(arrays, Compared.NEARLY, alike)

    def differ_in_bits(self, seed: int) -> Difference | None:
        """Two values of one class in the declared types, special values included, whose bits
        differ.
        """
        rng = np.random.default_rng(seed)
        return self.differ_in_bits_on(put_beside(rng, draw_bits(rng, self.types), self.numbers))

    def differ_in_bits_on(self, arrays: Sequence[np.ndarray]) -> Difference | None:
        """The same on given inputs and parameters."""
        return self._difference(arrays, Compared.TO_THE_BIT, same_bits)

    def differ_by_bound(self, seed: int) -> Difference | None:
        """Another form of the result that is not finite, or further off than the left side's own
        bound allows, on values of any magnitude.
        """
        arrays = self._magnitudes(np.random.default_rng(seed))
        return self.differ_by_bound_on([_unflushed(array) for array in arrays], seed)

    def differ_by_bound_on(self, arrays: Sequence[np.ndarray], seed: int) -> Difference | None:
        """The same on given inputs and parameters: where everything that the left side computes
        stays finite, the other form is finite, and its error is at most `ALLOWED` times the bound
        of the left side's. A bound below the error that the left side is seen to make would be
        none, so that it is at least that error.
        """
        inputs, parameters = self._named(arrays)
        narrow = OverflowInterpreter(parameters)
        (left,) = narrow.run(self._ready, inputs).values()
        finite = ~narrow.overflowed(left) & np.isfinite(left.astype(np.float64))
        (exact,) = Interpreter(parameters, wide=True).run(self._ready, inputs).values()
        exact = exact.astype(np.float64)
        finite &= np.isfinite(exact)
        if not finite.any():
            return None
        element = element_of(self.graph.results_returned[0].type)
        own = unit_of(element) * np.abs(exact)
        if element.is_float:
            own = own + float(ml_dtypes.finfo(element.dtype).smallest_subnormal)
        with np.errstate(all="ignore"):
            met = np.abs(left.astype(np.float64) - exact)
        own = np.where(finite, np.maximum(own, met), own)
        for value in self._other_forms(arrays, wide=False):
            with np.errstate(all="ignore"):
                error = np.abs(value.astype(np.float64) - exact)
            error = np.where(np.isnan(error), np.inf, error)
            wrong, bound = finite & (error > ALLOWED * own), own
            for found in error_bounds(self._ready, inputs, parameters, exact, seed):
                if not wrong.any():
                    break
                bound = np.maximum(own, found)
                wrong = wrong & ~(
                    np.isfinite(value.astype(np.float64)) & (error <= ALLOWED * bound)
                )
            if wrong.any():
                how, given = Compared.TO_THE_BOUND, self._given(arrays)
                return Difference(left, value, True, how, given, wrong, bound)
        return None

    def differ_over_reals(self, seed: int) -> Difference | None:
        """Another form of the result that is another number over the reals: further off in f64 than
        what both forms lose there explains, on values that f32 holds.
        """
        rng = np.random.default_rng(seed)
        arrays = self._magnitudes(rng)
        inputs, parameters = self._named(arrays)
        (exact,) = Interpreter(parameters, wide=True).run(self._ready, inputs).values()
        exact = exact.astype(np.float64)
        for at, value in enumerate(self._other_forms(arrays, wide=True)):
            with np.errstate(all="ignore"):
                distance = np.abs(value.astype(np.float64) - exact)
            wrong = np.isfinite(distance) & (distance > SMALLEST)
            if not wrong.any():
                continue
            bound = np.zeros(exact.shape)
            for found in self._losses(arrays, exact, at, value, seed):
                bound = np.maximum(bound, found)
                wrong &= distance > ALLOWED * bound
                if not wrong.any():
                    break
            if wrong.any():
                how, given = Compared.OVER_THE_REALS, self._given(arrays)
                return Difference(exact, value, True, how, given, wrong, bound)
        return None

    def _losses(
        self, arrays: Sequence[np.ndarray], exact: np.ndarray, at: int, value: np.ndarray, seed: int
    ) -> Iterator[np.ndarray]:
        """How far off roundings make the left side, and one other form of the result, which is
        `value` without them. Some roundings cancel each other, so that one try says little.
        """
        inputs, parameters = self._named(arrays)
        yield from error_bounds(self._ready, inputs, parameters, exact, seed, REAL_UNIT)
        rng = np.random.default_rng(seed)
        off = PerturbedInterpreter(parameters, rng, (-1.0, 1.0), UNITS["f64"])
        for _ in range(PERTURBATIONS):
            again = self._other_forms(arrays, wide=True, interpreter=off)[at]
            with np.errstate(all="ignore"):
                lost = np.abs(again.astype(np.float64) - value.astype(np.float64))
            yield np.where(np.isnan(lost), np.inf, lost)

    @cached_property
    def types(self) -> list[TensorType]:
        """The types of the graph's inputs, then of its parameters."""
        inputs = [tensor_of(argument.type) for argument in self.graph.block.args]
        return inputs + [leaf.type for leaf in self._parameters.values()]

    @cached_property
    def numbers(self) -> np.ndarray:
        """The numbers that the e-graph names, as constants or attributes, or some of them."""
        things = self.result.facts.leaves.things
        leaves = [things[numbers[0]] for numbers in self.result.leaves.values()]
        arrays = [array_of(leaf.key) for leaf in leaves if leaf.kind == "constant"]
        found = [value for array in arrays for value in array.ravel()[:NAMED].astype(np.float64)]
        for _, _, step in self.ordered:
            values = step.op.values.values() if isinstance(step.op, TensorOp) else ()
            found += [float(value) for value in values if isinstance(value, int | float)]
        return np.unique([value for value in found if np.isfinite(value) and value])

    @property
    def elements_and_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """These, as names of element types and shapes."""
        return [(element_of(type).name, tuple(type.get_shape())) for type in self.types]

    @cached_property
    def _parameters(self) -> dict[int, Leaf]:
        """The parameters of the e-graph, by class."""
        things = self.result.facts.leaves.things
        leaves = {key: things[numbers[0]] for key, numbers in self.result.leaves.items()}
        return {key: leaf for key, leaf in leaves.items() if leaf.kind == "parameter"}

    def _named(
        self, arrays: Sequence[np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Inputs and parameters by name."""
        count = len(self.graph.block.args)
        inputs = dict(zip(self.graph.input_names, arrays[:count], strict=True))
        names = [leaf.key for leaf in self._parameters.values()]
        return inputs, dict(zip(names, arrays[count:], strict=True))

    def _magnitudes(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Inputs and parameters of any magnitude, no larger than `largest` says. In f64 they are
        those of f32, since results in f64 are measured by f64 itself, which must not underflow.
        """
        drawn = draw_magnitudes(rng, [_at_most_f32(type) for type in self.types])
        drawn = put_beside(rng, drawn, self.numbers)
        names = [*self.graph.input_names, *(leaf.key for leaf in self._parameters.values())]
        return [
            _bounded(array, self.largest.get(name, np.inf), element_of(type).dtype)
            for array, name, type in zip(drawn, names, self.types, strict=True)
        ]

    def _given(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The inputs, without parameters."""
        return tuple(arrays[: len(self.graph.block.args)])

    def _other_forms(
        self, arrays: Sequence[np.ndarray], wide: bool, interpreter: Interpreter | None = None
    ) -> list[np.ndarray]:
        """The values of the result's e-nodes but the left side's own."""
        assert self.root is not None
        entries = self._evaluate(arrays, wide, interpreter)[self.root]
        return [value for node, value in entries if node is None or node != self.left]

    def _difference(
        self,
        arrays: Sequence[np.ndarray],
        how: Compared,
        alike: Callable[[np.ndarray, np.ndarray], bool],
    ) -> Difference | None:
        """The first two values of one class that are not alike: the left side, where the class has
        it, and what differs from it.
        """
        wide = how is Compared.NEARLY
        for values in self._evaluate(arrays, wide).values():
            left = next((value for node, value in values if node and node == self.left), None)
            first = values[0][1] if left is None else left
            for _, value in values:
                if not alike(value, first):
                    given = self._given(arrays)
                    return Difference(first, value, left is not None, how, given)
        return None

    def _node_of(self, handle: int) -> ClassNode | None:
        """The e-node that the program has under a handle."""
        fact, class_of = self.result.facts.definitions[handle], self.result.class_of
        if fact is None or isinstance(fact, Leaf):
            return None
        return ClassNode(
            fact.name, fact.attributes, fact.type, tuple([class_of[item] for item in fact.operands])
        )

    @cached_property
    def ordered(self) -> list[tuple[int, ClassNode, Step]]:
        """The e-nodes with their classes and as operations, operands before users."""
        known = set(self.result.leaves)
        pending = [(key, node) for key, nodes in self.result.nodes.items() for node in nodes]
        found: list[tuple[int, ClassNode, Step]] = []
        while pending:
            ready = [item for item in pending if known.issuperset(item[1].operands)]
            if not ready:
                break
            found += [(key, node, self._operation(key, node)) for key, node in ready]
            known.update(key for key, _ in ready)
            pending = [item for item in pending if item not in ready]
        return found

    def _operation(self, key: int, node: ClassNode) -> Step:
        types = self.result.facts.handle_types
        block = Block(arg_types=[types[item] for item in node.operands])
        op = OPERATIONS[node.name].op_class.create(
            operands=list(block.args),
            result_types=[types[key]],
            properties=dict(self.result.facts.properties.things[node.attributes]),
        )
        block.add_op(op)
        op.verify()
        return Step(op)

    def _evaluate(
        self, arrays: Sequence[np.ndarray], wide: bool, interpreter: Interpreter | None = None
    ) -> dict[int, Entries]:
        """The values of all classes, operands before users."""
        interpreter = interpreter or Interpreter(wide=wide)
        parameters = dict(zip(self._parameters, arrays[len(self.graph.block.args) :], strict=True))
        known: dict[int, np.ndarray] = {}
        for key, leaves in self.result.leaves.items():
            leaf = self.result.facts.leaves.things[leaves[0]]
            array = parameters[key] if key in parameters else _leaf_array(leaf, arrays)
            widens = wide and element_of(leaf.type).is_float
            known[key] = array.astype(np.float64) if widens else array
        outcomes: dict[int, Entries] = {key: [(None, value)] for key, value in known.items()}
        for key, node, step in self.ordered:
            if node.name == "round_tf32" and not self.rounds:
                value = known[node.operands[0]]
            else:
                (value,) = interpreter.run_op(step, [known[item] for item in node.operands])
            known.setdefault(key, value)
            outcomes.setdefault(key, []).append((node, value))
        return outcomes


def _bounded(array: np.ndarray, largest: float, dtype: Any) -> np.ndarray:
    """An array in its declared type, its elements no larger."""
    if array.dtype.kind in "iub":
        return array
    most = min(largest, float(ml_dtypes.finfo(dtype).max))
    return np.clip(array.astype(np.float64), -most, most).astype(dtype)


def _unflushed(array: np.ndarray) -> np.ndarray:
    """An array whose elements are 0 where they are so small that a device may flush them, or their
    halves and quarters, to 0.
    """
    if array.dtype.kind in "iub":
        return array
    least = 4 * float(ml_dtypes.finfo(array.dtype).smallest_normal)
    return np.where(np.abs(array.astype(np.float64)) < least, np.zeros_like(array), array)


def _at_most_f32(type: TensorType) -> TensorType:
    return tensor("f32", type.get_shape()) if element_of(type).name == "f64" else type


def _leaf_array(leaf: Any, inputs: Sequence[np.ndarray]) -> np.ndarray:
    return inputs[leaf.key] if leaf.kind == "input" else array_of(leaf.key)


def tensor_of(type: Attribute) -> TensorType:
    """A type of the language."""
    assert isinstance(type, TensorType)
    return type


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays are the same, signs of zeros too; all nan are one."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind in "iub":
        return bool(np.array_equal(left, right))
    with np.errstate(all="ignore"):
        nan = np.isnan(left)
        return bool(
            np.array_equal(nan, np.isnan(right))
            and np.array_equal(left[~nan], right[~nan])
            and np.array_equal(np.signbit(left[~nan]), np.signbit(right[~nan]))
        )
