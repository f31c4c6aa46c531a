"""Exact rows of the rule table keep their bits on the device: the left side of a row and what it
makes of it, each in one kernel an operation, on special values.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp, ReturnOp, array_of
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.rules.table import RULES
from mgn.testing.draws import draw_bits
from mgn.testing.left_sides import Unfit
from mgn.testing.trials import values_of
from mgn.testing.values import Values, same_bits
from tests.fuzz.device import Job, Runner
from tests.fuzz.variants import SEPARATE
from tests.passes.saturate.rules.examples.rule_trials import instances

MOST = 300
"""Instances that are drawn for one that a row acts on."""
SEEDS = range(3)


def forms_of(values: Values) -> Iterator[GraphOp]:
    """The left side and each other form of a saturated graph's result, as graphs of their own."""
    first: dict[int, tuple[tuple[int, ...], Operation]] = {}
    last: list[tuple[tuple[int, ...], Operation]] = []
    for key, node, step in values.ordered:
        if key == values.root:
            last.insert(0 if node == values.left else len(last), (node.operands, step.op))
        first.setdefault(key, (node.operands, step.op))
    for form in last:
        yield graph_of(values, first, form)


def graph_of(
    values: Values,
    first: dict[int, tuple[tuple[int, ...], Operation]],
    form: tuple[tuple[int, ...], Operation],
) -> GraphOp:
    """A graph of one form of the result. What an e-graph has as a leaf is read or a constant."""
    types = [argument.type for argument in values.graph.block.args]
    block = Block(arg_types=types)
    b = Emitter(block.add_op)
    made: dict[int, SSAValue] = {}
    for key, numbers in values.result.leaves.items():
        leaf = values.result.facts.leaves.things[numbers[0]]
        if leaf.kind == "input":
            made[key] = block.args[leaf.key]
        else:
            assert leaf.kind == "constant", "an exact row of parameters"
            made[key] = b.constant_array(np.array(array_of(leaf.key), order="C"))

    def emit(operands: tuple[int, ...], op: Operation) -> SSAValue:
        for key in operands:
            if key not in made:
                made[key] = emit(*first[key])
        copied = op.clone(dict(zip(op.operands, (made[key] for key in operands), strict=True)))
        block.add_op(copied)
        return copied.results[0]

    block.add_op(ReturnOp([emit(*form)]))
    graph = GraphOp("g", values.graph.input_names, ["y"], Region(block))
    ModuleOp([graph])
    graph.verify()
    return graph


def acted_on(rule: Rule) -> Values | None:
    """The first instance that a row acts on."""
    for instance in itertools.islice(instances(rule, 0), MOST):
        try:
            values = values_of(rule, instance)
        except Unfit:
            continue
        if not values.is_empty and (values.root in values.result.leaves or _forms(values) > 1):
            return values
    return None


def _forms(values: Values) -> int:
    """How many operations compute the result."""
    return sum(key == values.root for key, _, _ in values.ordered)


def differing(rules: Sequence[Rule], device_runner: Runner) -> tuple[set[str], set[str]]:
    """The rows that were tried, and those of which some form has other bits than the left side."""
    tried: list[tuple[Rule, Values, list[Job]]] = []
    for rule in rules:
        values = acted_on(rule)
        if values is None:
            continue
        jobs: list[Job] = []
        for graph in forms_of(values):
            module = graph.parent_op()
            assert isinstance(module, ModuleOp)
            compiled = SEPARATE.compile(module, device_runner.description)
            jobs.append(
                device_runner.job(compiled, module, device_runner.description, "opencl", True)
            )
        tried.append((rule, values, jobs))
    device_runner.build([job for _, _, jobs in tried for job in jobs])
    wrong: set[str] = set()
    for rule, values, jobs in tried:
        for seed in SEEDS:
            arrays = draw_bits(np.random.default_rng(seed), values.types)
            inputs = dict(zip(values.graph.input_names, arrays, strict=True))
            left, *others = (device_runner.run(job, inputs, {})["y"] for job in jobs)
            assert values.root is not None
            for number in values.result.leaves.get(values.root, ()):
                leaf = values.result.facts.leaves.things[number]
                others.append(arrays[leaf.key] if leaf.kind == "input" else array_of(leaf.key))
            if not all(same_bits(other, left) for other in others):
                wrong.add(rule.name)
    return {rule.name for rule, _, _ in tried}, wrong


def test_an_exact_row_has_the_bits_of_its_left_side_on_the_device(device_runner: Runner) -> None:
    rows = [rule for rule in RULES.values() if rule.equality is RuleClass.EXACT]
    tried, wrong = differing(rows, device_runner)
    assert not wrong
    assert tried == {rule.name for rule in rows}


def test_a_row_that_rounds_otherwise_is_found_on_the_device(device_runner: Runner) -> None:
    row = Rule("planted", "mul(x, recip(y))", "div(x, y)", RuleClass.EXACT, "", "wide(x)")
    assert differing([row], device_runner) == ({"planted"}, {"planted"})
