"""What the e-nodes of a small saturated graph come to on random inputs, and where two that a rule
made equal differ.

In: a graph and its saturated e-graph. Out: whether all e-nodes of each class have one value, or a
`Difference`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.structure import GraphOp, array_of
from mgn.dialects.types import element_of
from mgn.passes.saturate.engine import ClassNode, SaturatedGraph
from mgn.passes.saturate.facts import Leaf
from mgn.passes.saturate.rule import RuleClass

WIDE_TOLERANCE = 1e-9
"""Of two orders of at most some tens of operations in f64, on values of order 1."""
ROUNDED_TOLERANCE = 2e-6
"""Where a constant was rounded to f32; half precision is not asked."""

SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, np.inf, -np.inf, np.nan)
"""Values that differ in their bits where numbers of order 1 do not."""
TIES = (0.5, 1.0, 1.5, 2.0, 2.5)
"""Whole numbers and halves, at which roundings differ, and which make elements equal."""
LEAST = float(np.finfo(np.float64).smallest_subnormal)
"""How far zeros of both signs are apart."""
TIED = 0.25
"""The share of them."""


@dataclass(frozen=True)
class Difference:
    """Two arrays that a rule equates and that differ: the left side's first, where `sided`. They
    were compared to the bit, or in f64. `inputs` are those of the graph.
    """

    left: np.ndarray
    right: np.ndarray
    sided: bool
    to_the_bit: bool
    inputs: tuple[np.ndarray, ...]

    @property
    def place(self) -> tuple[int, ...]:
        """The element where they are furthest apart."""
        distance = _distance(self.left, self.right)
        return tuple(int(i) for i in np.unravel_index(int(distance.argmax()), distance.shape))

    @property
    def count(self) -> int:
        """In how many elements they differ at all."""
        return int(np.count_nonzero(_distance(self.left, self.right)))

    @property
    def is_rounding(self) -> bool:
        """Whether they agree but for what a constant's rounding makes."""
        return _is_near(self.left, self.right, ROUNDED_TOLERANCE)


def _distance(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """How far apart elements are: infinitely where one is nan, a little where signs of 0 differ."""
    one, two = left.astype(np.float64), right.astype(np.float64)
    with np.errstate(all="ignore"):
        distance = np.abs(one - two)
    signs = (np.signbit(one) != np.signbit(two)) & ~np.isnan(one)
    alike = (one == two) | (np.isnan(one) & np.isnan(two))
    apart = np.where(np.isnan(distance), np.inf, distance)
    return np.where(alike, np.where(signs, LEAST, 0.0), apart)


def _is_near(left: np.ndarray, right: np.ndarray, tolerance: float) -> bool:
    return bool(np.allclose(left, right, rtol=tolerance, atol=tolerance, equal_nan=True))


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
        self.left = None if root is None else self._node_of(root)

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
        inputs = self._inputs(seed, wide=True)
        alike = partial(_is_near, tolerance=tolerance)
        return self._difference(self._evaluate(seed, inputs, wide=True), inputs, alike)

    def differ_in_bits(self, seed: int) -> Difference | None:
        """Two values of one class in the declared types, special values included, whose bits
        differ.
        """
        inputs = self._inputs(seed, wide=False)
        return self._difference(self._evaluate(seed, inputs, wide=False), inputs, same_bits)

    def _difference(
        self,
        classes: Iterable[Entries],
        inputs: Sequence[np.ndarray],
        alike: Callable[[np.ndarray, np.ndarray], bool],
    ) -> Difference | None:
        """The first two values of one class that are not alike: the left side, where the class has
        it, and what differs from it.
        """
        for values in classes:
            left = next((value for node, value in values if node and node == self.left), None)
            first = values[0][1] if left is None else left
            for _, value in values:
                if not alike(value, first):
                    in_bits = alike is same_bits
                    return Difference(first, value, left is not None, in_bits, tuple(inputs))
        return None

    def _node_of(self, handle: int) -> ClassNode | None:
        """The e-node that the program has under a handle."""
        fact, class_of = self.result.facts.definitions[handle], self.result.class_of
        if fact is None or isinstance(fact, Leaf):
            return None
        return ClassNode(
            fact.name, fact.attributes, fact.type, tuple([class_of[item] for item in fact.operands])
        )

    def _inputs(self, seed: int, wide: bool) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        types = [tensor_of(argument.type) for argument in self.graph.block.args]
        return [random_array(rng, type, wide) for type in types]

    def _evaluate(self, seed: int, inputs: Sequence[np.ndarray], wide: bool) -> list[Entries]:
        """The values of all classes, operands before users."""
        rng = np.random.default_rng([seed, len(inputs)])
        arrays: dict[int, np.ndarray] = {}
        for key, leaves in self.result.leaves.items():
            leaf = self.result.facts.leaves.things[leaves[0]]
            array = (
                random_array(rng, leaf.type, wide)
                if leaf.kind == "parameter"
                else inputs[leaf.key]
                if leaf.kind == "input"
                else array_of(leaf.key)
            )
            widens = wide and element_of(leaf.type).is_float
            arrays[key] = array.astype(np.float64) if widens else array
        outcomes: dict[int, Entries] = {key: [(None, value)] for key, value in arrays.items()}
        pending = [(key, node) for key, nodes in self.result.nodes.items() for node in nodes]
        while pending:
            ready = [item for item in pending if all(key in arrays for key in item[1].operands)]
            if not ready:
                break
            for key, node in ready:
                value = self._value_of(key, node, arrays, wide)
                arrays.setdefault(key, value)
                outcomes.setdefault(key, []).append((node, value))
            pending = [item for item in pending if item not in ready]
        return list(outcomes.values())

    def _value_of(
        self, key: int, node: ClassNode, arrays: dict[int, np.ndarray], wide: bool
    ) -> np.ndarray:
        if node.name == "round_tf32" and not self.rounds:
            return arrays[node.operands[0]]
        types = self.result.facts.handle_types
        spec = OPERATIONS[node.name]
        block = Block(arg_types=[types[item] for item in node.operands])
        op = spec.op_class.create(
            operands=list(block.args),
            result_types=[types[key]],
            properties=dict(self.result.facts.properties.things[node.attributes]),
        )
        block.add_op(op)
        op.verify()
        return Interpreter(wide=wide).run_op(op, [arrays[item] for item in node.operands])[0]


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
    nan = np.isnan(left)
    return bool(
        np.array_equal(nan, np.isnan(right))
        and np.array_equal(left[~nan], right[~nan])
        and np.array_equal(np.signbit(left[~nan]), np.signbit(right[~nan]))
    )


def random_array(rng: np.random.Generator, type: TensorType, wide: bool) -> np.ndarray:
    """Random values of a type, a few of them whole or halves; with zeros of both signs, infinities
    and nan unless `wide`.
    """
    element, shape = element_of(type), type.get_shape()
    if element.name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if element.family == "unsigned":
        return rng.integers(1, 9, shape).astype(element.dtype)
    if element.is_integer:
        return rng.integers(-9, 9, shape).astype(element.dtype)
    plain = rng.uniform(0.2, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if wide:
        ties = rng.choice(TIES, shape) * rng.choice([-1.0, 1.0], shape)
        return np.where(rng.random(shape) < TIED, ties, plain)
    special = rng.choice(SPECIAL, shape)
    return np.where(rng.random(shape) < 0.5, plain, special).astype(element.dtype)
