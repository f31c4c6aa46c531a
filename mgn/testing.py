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
from typing import cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.attributes import REQUIRED
from mgn.dialects.mgn.build import CallError, Emitter
from mgn.dialects.mgn.operation import OPERATIONS, AttributeSpec, Kind
from mgn.dialects.mgn.structure import GraphOp, ReadOp, ReturnOp
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, ElementType, element_of, spelling, tensor
from mgn.passes.saturate.encode import encode_graph
from mgn.passes.saturate.engine import saturate_facts
from mgn.passes.saturate.patterns import Call, Number, Pattern, PatternError, Variable, calls_of
from mgn.passes.saturate.rule import Rule, RuleClass
from mgn.passes.saturate.saturate import literals_of
from mgn.rule_values import ROUNDED_TOLERANCE, Difference, Values, tensor_of

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
WIDE_SEEDS, EXACT_SEEDS = range(2), range(2, 6)
"""Draws for values and for bits: a nan where the other operand has none is rare in a few small
arrays.
"""


class Unfit(Exception):
    """These types or attributes do not make an instance that the rule acts on."""


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
    """How many instances a rule acted on, and on how many of them both sides agreed; the one on
    which they did not, and where.
    """

    acted: int = 0
    agreed: int = 0
    instance: Instance | None = None
    difference: Difference | None = None

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
    if not isinstance(cast("object", rule), Rule):
        raise PatternError(f"check_rule takes a Rule, not {type(rule).__name__}")
    rule.check()
    outcome = try_rule(rule, wanted, most, seed, examples)
    if not outcome.acted:
        raise UnsoundRule(
            f"rule {rule.name} acted on no instance that was tried, of {most} random ones; "
            "'examples' can make some that fit its left side and its condition"
        )
    if not outcome.passes:
        raise UnsoundRule(_told(rule, outcome))
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
            difference = difference_of(rule, instance)
        except Unfit:
            continue
        outcome.acted += 1
        if difference is not None:
            outcome.instance, outcome.difference = instance, difference
            break
        outcome.agreed += 1
        if outcome.acted >= wanted:
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
            op = ReadOp(name, tensor_of(values[name].type))
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


def difference_of(rule: Rule, instance: Instance) -> Difference | None:
    """Where the sides of a rule differ on an instance; None where they agree. Unfit where it does
    not act.
    """
    graph = left_side(rule, instance)
    encoded = encode_graph(graph, literals_of([rule]))
    result = saturate_facts(encoded.facts, [rule])
    if not result.fired[rule.name]:
        raise Unfit
    values = Values(graph, result, encoded.outputs[0])
    wide = (values.differ_widely(seed, rule.equality) for seed in WIDE_SEEDS)
    exact = EXACT_SEEDS if rule.equality is RuleClass.EXACT else ()
    found = (item for item in itertools.chain(wide, map(values.differ_in_bits, exact)))
    return next((item for item in found if item is not None), None)


def _told(rule: Rule, outcome: Trial) -> str:
    """What is wrong with a rule: the instance, both sides where they are furthest apart, what to
    do.
    """
    instance, difference = outcome.instance, outcome.difference
    assert instance is not None and difference is not None
    place = difference.place
    one, two = (str(array[place]) for array in (difference.left, difference.right))
    size, where = difference.left.size, f" at {list(place)}" if place else ""
    sides = (rule.left, rule.right) if difference.sided else ("one form of it", "another")
    how = "to the bit, in the declared types" if difference.to_the_bit else "with floats in f64"
    return "\n".join(
        [
            f"rule {rule.name}: its sides differ on instance {outcome.acted} that it acted on",
            *(f"  {line}" for line in _instance_lines(rule, instance, difference)),
            f"  {sides[0]} = {one}{where}",
            f"  {sides[1]} = {two}{where}",
            f"  they differ in {difference.count} of {size} elements, compared {how}",
            f"note: {_advice(rule, difference)}",
        ]
    )


def _instance_lines(rule: Rule, instance: Instance, difference: Difference) -> Iterator[str]:
    """The variables with their types, and what they are: at the place where the sides differ, where
    the rule takes each element by itself.
    """
    calls = calls_of(rule.left_pattern)
    elementwise = all(OPERATIONS[call.name].kind is Kind.ELEMENTWISE for call in calls)
    shape, place = difference.left.shape, difference.place
    arrays = zip(rule.variables, instance.types, difference.inputs, strict=True)
    for name, type, array in arrays:
        if name in rule.constants:
            yield f"{name} = {instance.constants[name]}, a constant"
        elif name in instance.known:
            yield f"{name}: {spelling(type)}, constants"
        elif name in parameters_of(rule):
            yield f"{name}: {spelling(type)}, a parameter"
        else:
            value = np.broadcast_to(array, shape)[place] if elementwise else array.round(4).tolist()
            yield f"{name}: {spelling(type)} = {value}"
    for name, value in instance.attributes.items():
        yield f"{name} = {value.name if isinstance(value, ElementType) else value}"


def _advice(rule: Rule, difference: Difference) -> str:
    if difference.to_the_bit:
        return (
            "in f64 they agree; a row of RuleClass.REASSOCIATES has to agree there alone, "
            "and does not act where exact bits are asked for"
        )
    if difference.is_rounding and rule.equality is not RuleClass.APPROXIMATES:
        return f"they agree to {ROUNDED_TOLERANCE}; a row of RuleClass.APPROXIMATES may differ so"
    return (
        "if they agree on other instances, a condition leaves this one out: "
        "'mgn-opt --list-predicates' says what when=\"…\" can ask"
    )
