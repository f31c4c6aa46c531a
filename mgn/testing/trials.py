"""Trials of rewrite rules, for mgn's own and for those of a user: random instances, both sides.

In: a `Rule`. Out: a `Trial`: how many instances it acted on, and on how many of them all e-nodes of
each class had the same value. On each instance both sides are compared in f64 on values of order 1,
to 1e-9, and then by what the rule's class promises, on values of all magnitudes:

    exact         the same bits in the declared element types: zeros of both signs, infinities, nan,
                  subnormals, both ends of every type of integers
    reassociates  where all that the left side computes stays finite, the right side is finite, and
                  its error is at most 8 times the bound of the left side's, which is estimated
                  (`mgn/testing/error_bounds.py`)
    fast          the same value over the reals
    approximates  nothing more, and 2e-6 in place of 1e-9
    rounds        nothing more; roundings of a product's operands are left out

Where no value is a float, both sides have the same bits, whatever the class.
"""

import ast
import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

import numpy as np

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.operation import OPERATIONS, Kind
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.types import ElementType, spelling
from mgn.passes.saturate.egraph.engine import saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.patterns import PatternError, calls_of
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.saturate import literals_of
from mgn.testing.instances import Examples, Instance, instances
from mgn.testing.left_sides import MOST_TOGETHER, Unfit, left_side, may_act, parameters_of
from mgn.testing.values import ALLOWED, ROUNDED_TOLERANCE, Compared, Difference, Values

REALS = range(2)
"""Draws of values of order 1."""
DRAWS = 8
"""Draws for what a class promises: bits, or an error; a nan where the other operand has none is
rare in a few small arrays.
"""

WANTED = 100
"""Instances that a rule has to act on, where nothing else is said."""

LARGEST = {
    "moderate_parameters": (2.0**20, 2.0**20),
    "usual_channels": (2.0**20, 2.0**20),
    "usual_scores": (2.0**70, 2.0**32),
    "small_scores": (2.0**26, 2.0**10),
}
"""Conditions that assume something of the size of values: no larger ones are drawn, of those that q
and k stand for, whose products are scores, the second.
"""


class UnsoundRule(MgnError):
    """A rule whose two sides differ, or that acted on nothing that was tried."""


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
    wanted: int = WANTED,
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
    wanted: int = WANTED,
    most: int = 4000,
    seed: int = 0,
    examples: Examples | None = None,
) -> Trial:
    """Draws instances until the rule acted on enough of them, or both sides once disagreed. Results
    without elements are compared, but not counted.
    """
    outcome = Trial()
    drawn = itertools.islice(instances(rule, seed, examples), most)
    for instance, values in acted_on(rule, drawn):
        difference = difference_of(rule, instance, values, seed=DRAWS * outcome.acted)
        if difference is None and values.is_empty:
            continue
        outcome.acted += 1
        if difference is not None:
            outcome.instance, outcome.difference = instance, difference
            break
        outcome.agreed += 1
        if outcome.acted >= wanted:
            break
    return outcome


def acted_on(rule: Rule, drawn: Iterator[Instance]) -> Iterator[tuple[Instance, Values]]:
    """The instances that a rule acts on, with the values of all that it makes of them.

    Where it acts on few, more and more of them are looked at together.
    """
    count = 1
    while batch := list(itertools.islice(drawn, count)):
        sides: list[tuple[Instance, GraphOp]] = []
        for instance in batch:
            with suppress(Unfit):
                sides.append((instance, left_side(rule, instance)))
        count = min(2 * count, MOST_TOGETHER)
        for instance, graph in may_act(rule, sides):
            with suppress(Unfit):
                values = _values_of(rule, graph)
                count = 1
                yield instance, values


def values_of(rule: Rule, instance: Instance) -> Values:
    """The values of all that a rule makes of an instance. Unfit where it does not act."""
    return _values_of(rule, left_side(rule, instance))


def _values_of(rule: Rule, graph: GraphOp) -> Values:
    encoded = encode_graph(graph, literals_of([rule]))
    result = saturate_facts(encoded.facts, [rule])
    if not result.fired[rule.name]:
        raise Unfit
    values = Values(graph, result, encoded.outputs[0])
    values.largest = dict(_bounds_of(rule))
    return values


def _bounds_of(rule: Rule) -> Iterator[tuple[str, float]]:
    """The largest values of variables that a condition bounds, under their names in the graph."""
    parameters = parameters_of(rule)
    for condition in rule.conditions:
        for argument in condition.args:
            bounds = LARGEST.get(ast.unparse(condition.func))
            if bounds is not None and isinstance(argument, ast.Name):
                name, bound = argument.id, bounds[argument.id in "qk"]
                if name in parameters:
                    yield name, bound
                elif name in rule.variables:
                    yield f"x{rule.variables.index(name)}", bound


def difference_of(
    rule: Rule, instance: Instance, values: Values, seed: int = 0
) -> Difference | None:
    """Where the sides of a rule differ on an instance that it acts on; None where they agree. Of a
    difference in bits or errors it is asked whether the sides are two numbers over the reals, too.
    """
    seeds = range(seed, seed + DRAWS)
    nearly = (values.differ_widely(seed + n, rule.equality) for n in REALS if not instance.extreme)
    promised = PROMISES.get(rule.equality)
    if not values.of_floats:
        promised = Values.differ_in_bits
    found = itertools.chain(nearly, (promised(values, n) for n in seeds) if promised else ())
    difference = next((item for item in found if item is not None), None)
    if difference is None or difference.how is Compared.NEARLY or not values.of_floats:
        return difference
    apart = (values.differ_over_reals(n) for n in seeds)
    return next((item for item in apart if item is not None), difference)


PROMISES: dict[RuleClass, Callable[[Values, int], Difference | None]] = {
    RuleClass.EXACT: Values.differ_in_bits,
    RuleClass.REASSOCIATES: Values.differ_by_bound,
    RuleClass.FAST: Values.differ_over_reals,
}
"""What a class promises beside the same value over the reals, on numbers of order 1."""


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
    return "\n".join(
        [
            f"rule {rule.name}: its sides differ on instance {outcome.acted} that it acted on",
            *(f"  {line}" for line in _instance_lines(rule, instance, difference)),
            f"  {sides[0]} = {one}{where}",
            f"  {sides[1]} = {two}{where}",
            *_bound_lines(difference),
            f"  they differ in {difference.count} of {size} elements, compared {difference.how}",
            f"note: {_advice(rule, difference)}",
        ]
    )


def _bound_lines(difference: Difference) -> Iterator[str]:
    """How far off the left side may be by itself."""
    if difference.bound is not None and difference.how is Compared.TO_THE_BOUND:
        yield f"  the first one's error is at most {difference.bound[difference.place]:.3g}"


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
            value = np.broadcast_to(array, shape)[place] if elementwise else _shown(array)
            yield f"{name}: {spelling(type)} = {value!s}"
    for name, value in instance.attributes.items():
        yield f"{name} = {value.name if isinstance(value, ElementType) else value}"


def _shown(array: np.ndarray) -> object:
    """An array's elements in four digits."""
    if array.dtype.kind in "iub":
        return array.tolist()
    return np.array2string(array.astype(np.float64), formatter={"float": "{:.4g}".format})


def _advice(rule: Rule, difference: Difference) -> str:
    exactly = rule.equality is RuleClass.EXACT and difference.of_floats
    if difference.how is Compared.TO_THE_BIT and exactly:
        return (
            "in f64 they agree; a row of RuleClass.REASSOCIATES has to agree but for roundings, "
            "and does not act where exact bits are asked for"
        )
    if difference.how is Compared.TO_THE_BOUND:
        return (
            f"over the reals they agree, but the second has more than {ALLOWED:g} times the error "
            "that the first may have; a row of RuleClass.FAST promises nothing of the error"
        )
    if difference.is_rounding and rule.equality is not RuleClass.APPROXIMATES:
        return f"they agree to {ROUNDED_TOLERANCE}; a row of RuleClass.APPROXIMATES may differ so"
    return (
        "if they agree on other instances, a condition leaves this one out: "
        "'mgn-opt --list-predicates' says what when=\"…\" can ask"
    )
