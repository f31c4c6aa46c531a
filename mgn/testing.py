"""Tests of rewrite rules, for mgn's own and for those of a user: random instances, both sides.

In: a `Rule`. Out: a `Trial`: how many instances it acted on, and on how many of them all e-nodes of
each class had the same value: to 1e-9 with all floats in f64, and, where the rule is exact, to the
bit in the declared element types, with zeros of both signs, infinities and nan among the values.
"""

import ast
import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Region, SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.attributes import REQUIRED
from mgn.dialects.mgn.build import CallError, Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import OPERATIONS, AttributeSpec
from mgn.dialects.mgn.structure import GraphOp, ReadOp, ReturnOp, array_of
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, element_of, tensor
from mgn.passes.saturate.encode import encode_graph
from mgn.passes.saturate.engine import ClassNode, SaturatedGraph, saturate_facts
from mgn.passes.saturate.patterns import Call, Number, Pattern, Variable, calls_of
from mgn.passes.saturate.rule import Rule, RuleClass
from mgn.passes.saturate.saturate import literals_of

WIDE_TOLERANCE = 1e-9
"""Of two orders of at most some tens of operations in f64, on values of order 1."""
ROUNDED_TOLERANCE = 2e-6
"""Where a constant was rounded to f32; half precision is not asked."""

SHAPES = ((3, 4), (4, 3), (2, 3, 4), (4,), (), (3, 3), (2, 2, 2), (3, 1), (1, 4), (1,), (2, 4, 3))
ELEMENTS = ("f32", "f32", "f32", "f16", "i32", "u8", "bool", "f64")
PERMUTATIONS = tuple(perm for rank in range(1, 4) for perm in itertools.permutations(range(rank)))
ATTRIBUTES: dict[str, tuple[object, ...]] = {
    "perm": (*PERMUTATIONS, ()),
    "shape": ((12,), (3, 4), (4, 3), (2, 2, 3, 4), (2, 3, 4), (4,), (), (3, 3), (3, 2, 4)),
    "axis": ((0,), (1,), (0, 1)),
    "T": tuple(ELEMENT_TYPES[name] for name in ("f32", "f64", "f16", "i32", "i64", "u8")),
    "transpose_a": (False, True),
    "transpose_b": (False, True),
    "padding": (((0, 0), (0, 0)), ((1, 0), (0, 0)), ((0, 0),)),
    "value": (0.0, 1.5),
    "starts": ((0, 0), (1, 0), (0,)),
    "stops": ((3, 4), (2, 4), (4,)),
    "steps": ((1, 1), (1,)),
    "approx": ("none", "tanh"),
}
KINDS: dict[str, tuple[object, ...]] = {
    "int": (0, 1, 2, 4),
    "float": (0.5, 1.0, 1e-5, 10000.0),
    "number": (0.0, 1.5),
    "bool": (False, True),
    "str": (),
    "ints": ((), (0,), (1, 0), (2, 2)),
    "int or ints": ((2,), (3, 4), (2, 2)),
    "int, ints or none": ((0,), (1,), (0, 1)),
    "pairs": (((0, 0), (0, 0)), ((1, 2),)),
    "element type": tuple(ELEMENT_TYPES[name] for name in ("f32", "f64", "i32")),
}
"""Values of attributes that `ATTRIBUTES` does not name, by their kind."""
CONSTANTS = (2.0, -1.5, 3.0, 0.25, 0.1, -4.0)
EXACT_SEEDS = range(2, 6)
"""Draws for bits: a nan where the other operand has none is rare in a few small arrays."""
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, np.inf, -np.inf, np.nan)


class Unfit(Exception):
    """These types or attributes do not make an instance of the left side."""


class UnsoundRule(MgnError):
    """A rule whose two sides differ, or that acted on nothing that was tried."""


@dataclass
class Instance:
    """One instance of a left side. `known` are variables that are constants, not inputs."""

    types: list[TensorType]
    attributes: dict[str, object]
    constants: dict[str, float] = field(default_factory=dict[str, float])
    known: dict[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])


Examples = Callable[[str, random.Random, list[str]], Instance | None]
"""Instances that random types hardly ever make, from a rule's name, a generator, its variables."""


@dataclass
class Trial:
    """How many instances a rule acted on, and on how many of them both sides agreed."""

    acted: int = 0
    agreed: int = 0

    @property
    def passes(self) -> bool:
        """What is asked of every row of the table."""
        return self.acted > 0 and self.agreed == self.acted


def check_rule(
    rule: Rule,
    wanted: int = 10,
    most: int = 4000,
    seed: int = 0,
    examples: Examples | None = None,
) -> Trial:
    """Tries a rule on random typed instances: the values of both sides in f64, their types, and,
    where it says that it is exact, their bits. It draws `most` of them to act on those `wanted`.

    UnsoundRule where they differ, or where it acted on none; PatternError for a malformed row.
    """
    rule.check()
    outcome = try_rule(rule, wanted, most, seed, examples)
    if not outcome.acted:
        raise UnsoundRule(f"rule {rule.name} acted on no instance that was tried")
    if not outcome.passes:
        raise UnsoundRule(
            f"rule {rule.name}: its sides differ on instance {outcome.acted} that it acted on"
        )
    return outcome


def try_rule(
    rule: Rule,
    wanted: int = 10,
    most: int = 4000,
    seed: int = 0,
    examples: Examples | None = None,
) -> Trial:
    """Draws instances until the rule acted on enough of them, or both sides once disagreed."""
    outcome = Trial()
    for instance in itertools.islice(instances(rule, seed, examples), most):
        try:
            agrees = both_sides_agree(rule, instance)
        except Unfit:
            continue
        if agrees is not None:
            outcome.acted += 1
            outcome.agreed += agrees
        if outcome.acted >= wanted or outcome.agreed < outcome.acted:
            break
    return outcome


def instances(rule: Rule, seed: int, examples: Examples | None = None) -> Iterator[Instance]:
    """Instances to try: examples of the row where it has them, else random types.

    Alike types are drawn often, as most operations want them.
    """
    rng = random.Random(seed)
    choices = attribute_choices(rule.left_pattern)
    while True:
        example = examples(rule.name, rng, rule.variables) if examples is not None else None
        if example is not None:
            yield example
            continue
        element = rng.choice(ELEMENTS)
        first = rng.choice(SHAPES)
        shapes = [first if rng.random() < 0.4 else rng.choice(SHAPES) for _ in rule.variables]
        types = [tensor(element, shape) for shape in shapes]
        values = {name: rng.choice(among) for name, among in choices.items()}
        yield Instance(types, values, {name: rng.choice(CONSTANTS) for name in rule.constants})


def _graph(body: Callable[..., SSAValue], types: list[TensorType]) -> GraphOp:
    """A graph whose inputs have these types and whose result the body gives."""
    block = Block(arg_types=types)
    block.add_op(ReturnOp([body(Emitter(block.add_op), *block.args)]))
    return GraphOp("g", [f"x{n}" for n in range(len(types))], ["y"], Region(block))


def attribute_choices(pattern: Pattern) -> dict[str, list[object]]:
    """The attribute variables of a pattern, with the values that each is tried with."""
    found: dict[str, list[object]] = {}
    for call in calls_of(pattern):
        for item in OPERATIONS[call.name].attributes:
            written = call.attributes.get(item.name)
            if isinstance(written, ast.Name):
                found.setdefault(written.id, _values_of(item))
    return found


def _values_of(attribute: AttributeSpec) -> list[object]:
    """Values that an attribute is tried with: those of its name, or else its default and some of
    its kind.
    """
    default = () if attribute.default is REQUIRED else (attribute.default,)
    for choices in (ATTRIBUTES.get(attribute.name, ()), (*default, *KINDS[attribute.kind.name])):
        values: list[object] = []
        for value in choices:
            with suppress(TypeError):
                values.append(None if value is None else attribute.kind.accept(value))
        if values:
            return values
    return [None]


def emit_left(
    b: Emitter, pattern: Pattern, values: dict[str, SSAValue], attributes: dict[str, object]
) -> SSAValue:
    """The left side as operations."""
    assert isinstance(pattern, Call)
    operands: list[object] = []
    for operand in pattern.operands:
        if isinstance(operand, Variable):
            operands.append(values[operand.name])
        elif isinstance(operand, Number):
            operands.append(operand.value)
        else:
            operands.append(emit_left(b, operand, values, attributes))
    keywords = {
        name: attributes.get(node.id) if isinstance(node, ast.Name) else ast.literal_eval(node)
        for name, node in pattern.attributes.items()
    }
    specs = OPERATIONS[pattern.name].operands
    if specs and specs[0].variadic:
        result = b.call(pattern.name, operands, **keywords)
    else:
        named = {spec.name: value for spec, value in zip(specs, operands, strict=False)}
        result = b.call(pattern.name, **named, **keywords)
    assert isinstance(result, SSAValue)
    return result


def left_side(rule: Rule, instance: Instance) -> GraphOp:
    """A graph that computes the left side. Unfit where these types do not make one."""

    def body(b: Emitter, *inputs: SSAValue) -> SSAValue:
        values = dict(zip(rule.variables, inputs, strict=True))
        for name in rule.constants:
            values[name] = b.constant(instance.constants[name], element_of(values[name].type))
        for name, array in instance.known.items():
            values[name] = b.constant_array(np.ascontiguousarray(array))
        for name in parameters_of(rule):
            op = ReadOp(name, _tensor(values[name].type))
            b.insert(op)
            values[name] = op.result
        return emit_left(b, rule.left_pattern, values, instance.attributes)

    try:
        graph = _graph(body, instance.types)
        graph.verify()
    except (ShapeError, ValueError, KeyError, CallError) as error:
        raise Unfit from error
    return graph


def parameters_of(rule: Rule) -> list[str]:
    """The variables that a rule wants to depend on parameters alone."""
    return [
        argument.id
        for call in rule.conditions
        for argument in call.args
        if getattr(call.func, "id", "") == "parameters" and isinstance(argument, ast.Name)
    ]


def both_sides_agree(rule: Rule, instance: Instance) -> bool | None:
    """Whether both sides agree on this instance; None where the rule does not act on it."""
    graph = left_side(rule, instance)
    facts = encode_graph(graph, literals_of([rule])).facts
    result = saturate_facts(facts, [rule])
    if not result.fired[rule.name]:
        return None
    exact = rule.equality is RuleClass.EXACT
    values = Values(graph, result)
    return all(values.agree_widely(seed, rule.equality) for seed in range(2)) and (
        not exact or all(map(values.agree_to_the_bit, EXACT_SEEDS))
    )


class Values:
    """The values of all e-nodes of a small saturated graph, on random inputs."""

    def __init__(self, graph: GraphOp, result: SaturatedGraph) -> None:
        self.graph = graph
        self.result = result
        self.rounds = True

    def agree_widely(self, seed: int, equality: RuleClass) -> bool:
        """Whether each class has one value, with all floats in f64; without roundings where the
        sides differ in what they round.
        """
        self.rounds = equality is not RuleClass.ROUNDS
        rounded = equality is RuleClass.APPROXIMATES
        tolerance = ROUNDED_TOLERANCE if rounded else WIDE_TOLERANCE
        return all(
            np.allclose(value, values[0], rtol=tolerance, atol=tolerance, equal_nan=True)
            for values in self._evaluate(seed, wide=True)
            for value in values[1:]
        )

    def agree_to_the_bit(self, seed: int) -> bool:
        """Whether each class has one value in the declared types, special values included."""
        return all(
            same_bits(value, values[0])
            for values in self._evaluate(seed, wide=False)
            for value in values[1:]
        )

    def _evaluate(self, seed: int, wide: bool) -> list[list[np.ndarray]]:
        rng = np.random.default_rng(seed)
        arrays: dict[int, np.ndarray] = {}
        inputs = [
            random_array(rng, _tensor(argument.type), wide) for argument in self.graph.block.args
        ]
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
        outcomes = {key: [value] for key, value in arrays.items()}
        pending = [(key, node) for key, nodes in self.result.nodes.items() for node in nodes]
        while pending:
            ready = [item for item in pending if all(key in arrays for key in item[1].operands)]
            if not ready:
                break
            for key, node in ready:
                value = self._node(key, node, arrays, wide)
                arrays.setdefault(key, value)
                outcomes.setdefault(key, []).append(value)
            pending = [item for item in pending if item not in ready]
        return list(outcomes.values())

    def _node(
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


def _tensor(type: Attribute) -> TensorType:
    assert isinstance(type, TensorType)
    return type


def same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays are the same, signs of zeros too; all nan are one."""
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if not np.issubdtype(left.dtype, np.floating):
        return bool(np.array_equal(left, right))
    nan = np.isnan(left)
    return bool(
        np.array_equal(nan, np.isnan(right))
        and np.array_equal(left[~nan], right[~nan])
        and np.array_equal(np.signbit(left[~nan]), np.signbit(right[~nan]))
    )


def random_array(rng: np.random.Generator, type: TensorType, wide: bool) -> np.ndarray:
    """Random values of a type; with zeros of both signs, infinities and nan unless `wide`."""
    element, shape = element_of(type), type.get_shape()
    if element.name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if element.family == "unsigned":
        return rng.integers(1, 9, shape).astype(element.dtype)
    if element.is_integer:
        return rng.integers(-9, 9, shape).astype(element.dtype)
    plain = rng.uniform(0.2, 1.5, shape) * rng.choice([-1.0, 1.0], shape)
    if wide:
        return plain
    special = rng.choice(SPECIAL, shape)
    return np.where(rng.random(shape) < 0.5, plain, special).astype(element.dtype)
