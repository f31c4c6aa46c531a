"""What mutants of the rule table make, beside what their rows make: excuses that are executed.

In: a mutated row and its row. Out: on how many instances it made just what the row makes, acted
where the row does not, or made another form; or that its sides differed on one.
"""

import itertools
from dataclasses import dataclass, replace

from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.saturate.egraph.engine import saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.saturate import literals_of
from mgn.testing.instances import instances
from mgn.testing.left_sides import left_side
from mgn.testing.trials import acted_on, difference_of
from tests.passes.saturate.rules.examples.rule_examples import example_of

COMMUTING = ("add", "mul", "max", "min", "logical_and", "logical_or", "eq", "ne")
"""Operations that `test_mutants.py` tries with their operands exchanged."""
SEED = 1
"""Other draws than those that the mutant survived."""
WANTED, MOST = 6, 600
LEAST = 3
"""Instances without which a check says nothing."""


@dataclass
class Seen:
    """Counts of instances on which a mutant acted: it made what its row makes; its row does not act
    there; it made another form. `differs` says that its sides differed on one of them.
    """

    same: int = 0
    outside: int = 0
    other: int = 0
    differs: bool = False

    @property
    def acted(self) -> int:
        return self.same + self.outside + self.other


def seen_of(mutant: Rule, row: Rule) -> Seen:
    """Tries a mutant on fresh instances, beside its row."""
    seen = Seen()
    drawn = itertools.islice(instances(mutant, SEED, example_of), MOST)
    for instance, values in acted_on(mutant, drawn):
        graph = left_side(mutant, instance)
        alone = _size(graph, row, [row])
        if alone is not None and alone == _size(graph, row, [row, replace(mutant, name="mutant")]):
            seen.same += 1
        elif difference_of(mutant, instance, values, seed=1000 + 8 * seen.acted) is not None:
            seen.differs = True
            break
        elif alone is None:
            seen.outside += 1
        else:
            seen.other += 1
        if seen.acted >= WANTED and not 0 < seen.outside < LEAST:
            break
    return seen


def _size(graph: GraphOp, row: Rule, rules: list[Rule]) -> tuple[int, int] | None:
    """How many e-nodes and classes rules make of a graph; None where the row does not act. A form
    that is there already adds no node, and unites no classes.
    """
    result = saturate_facts(encode_graph(graph, literals_of(rules)).facts, rules)
    if not result.fired[row.name]:
        return None
    return sum(len(nodes) for nodes in result.nodes.values()), len(set(result.class_of.values()))


def executed_reason(mutant: Rule, row: Rule, kind: str, what: str) -> str | None:
    """Why a mutant holds, as far as trying it can tell; None where it cannot."""
    if kind == "operands" and _commutes(what):
        return "the operation commutes"
    if kind == "class":
        return None
    seen = seen_of(mutant, row)
    if seen.differs or seen.other:
        return None
    if seen.outside == 0 and seen.same >= LEAST:
        return f"it makes what the row makes, on {seen.same} instances"
    if kind == "condition" and seen.outside >= LEAST:
        return f"it holds where the row does not act, on {seen.outside} instances"
    return None


def _commutes(what: str) -> bool:
    """Whether the operands of an operation that commutes were exchanged."""
    side, _, rest = what.partition(", operands of ")
    return side in ("left", "right") and rest.partition("(")[0] in COMMUTING
