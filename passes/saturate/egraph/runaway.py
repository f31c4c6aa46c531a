"""Rules of the user's own that make ever more of what they match.

In: a saturated graph that a limit kept from its fixpoint, and the rules that made it. Out: the
rules to leave out of a second one, which the kernels are chosen from as well: what a rule that runs
away adds is cut off somewhere, and can hide what the others found.
"""

from collections.abc import Sequence

from mgn.passes.saturate.egraph.engine import LEAST_RATION, RATION, SaturatedGraph
from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.rules.table import BUILT_IN

FORMS = 4
"""E-nodes for each match of one rule that is looked at, up to which kernels are looked for in an
e-graph that is cut off, where there is another one.
"""


def rules_to_leave_out(graph: SaturatedGraph, rules: Sequence[Rule]) -> list[Rule]:
    """The user's rules that had their ration of matches, or all that acted where there is none."""
    if graph.saturated:
        return []
    own = set(BUILT_IN)
    acted = [rule for rule in rules if rule not in own and graph.fired.get(rule.name)]
    return [rule for rule in acted if rule.name in graph.stopped] or acted


def is_worth_a_choice(graph: SaturatedGraph) -> bool:
    """Whether an e-graph that is cut off is small enough to look for kernels in it besides."""
    return graph.node_count <= FORMS * (RATION * graph.facts.given + LEAST_RATION)
