"""Left sides of a rule as graphs, and on which of many of them it may act: egglog takes longer to
start than to look at a small graph.

In: a `Rule` and instances. Out: graphs; of many, those that are worth a look of their own.
"""

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.build import CallError, Emitter
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.structure import GraphOp, ReadOp, ReturnOp
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.engine import Application, saturate_facts
from mgn.passes.saturate.encoding.encode import Encoder, tensor_type
from mgn.passes.saturate.encoding.facts import Facts, Leaf
from mgn.passes.saturate.rules.patterns import Call, Number, Pattern, Variable
from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.saturate import literals_of
from mgn.testing.instances import Instance, literal_attributes
from mgn.testing.values import tensor_of

MOST_TOGETHER = 32
"""Instances that are looked at in one e-graph."""


class Unfit(Exception):
    """These types or attributes do not make an instance that the rule acts on."""


def _graph(body: Callable[..., SSAValue], types: list[TensorType]) -> GraphOp:
    """A graph whose inputs have these types and whose result the body gives."""
    block = Block(arg_types=types)
    block.add_op(ReturnOp([body(Emitter(block.add_op), *block.args)]))
    return GraphOp("g", [f"x{n}" for n in range(len(types))], ["y"], Region(block))


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
    keywords = literal_attributes(pattern, attributes)
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


def may_act(
    rule: Rule, sides: Sequence[tuple[Instance, GraphOp]]
) -> Iterator[tuple[Instance, GraphOp]]:
    """Those of some left sides that a rule may act on: all on which it does, and few others."""
    if len(sides) <= 1:
        yield from sides
        return
    acted = _acted_in_one(rule, [graph for _, graph in sides])
    if acted is not None:
        yield from itertools.compress(sides, acted)
        return
    half = len(sides) // 2
    yield from may_act(rule, sides[:half])
    yield from may_act(rule, sides[half:])


@dataclass
class _NotedFacts(Facts):
    """Facts that note the handles of all that is entered, known ones too."""

    noted: set[int] = field(default_factory=set[int])

    def _noted(self, handle: int) -> int:
        self.noted.add(handle)
        return handle

    def node(self, *given: Any, **named: Any) -> int:
        return self._noted(super().node(*given, **named))

    def leaf(self, *given: Any, **named: Any) -> int:
        return self._noted(super().leaf(*given, **named))


def _acted_in_one(rule: Rule, graphs: Sequence[GraphOp]) -> list[bool] | None:
    """On which graphs a rule acts in an e-graph of all; None where it fails there, or has no end.

    Their inputs are told apart, so that each matches there what it matches alone, and nobody counts
    readers: conditions only ask for few. A rule that acts at all does so first on a value of the
    graph, whose handle, or one that is equal, is noted; values without inputs are of many graphs.
    """
    facts, inputs = _NotedFacts(literals_of([rule])), itertools.count()
    encoder = Encoder(facts)
    entered: list[set[int]] = []
    for graph in graphs:
        facts.noted = set()
        arguments = graph.block.args
        handles: dict[SSAValue, int] = {
            item: facts.leaf(Leaf("input", next(inputs), tensor_type(item))) for item in arguments
        }
        for op in graph.block.ops:
            encoder.encode(op, handles)
        entered.append(facts.noted)
    facts.noted = set()
    trail: list[Application] = []
    with suppress(MgnError):
        result = saturate_facts(facts, [rule], trail=trail)
        if result.saturated:
            acted = {result.class_of[application.root] for application in trail}
            return [any(result.class_of[item] in acted for item in noted) for noted in entered]
    return None
