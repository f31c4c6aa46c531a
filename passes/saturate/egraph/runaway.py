"""User's rules that run away: they match again what they add, without end.

In: a saturated graph that a limit kept from its fixpoint, and the rules that made it. Out: the
rules to leave out of a second graph, from which kernels are chosen too. The limit cuts off what a
rule that runs away adds, and that can hide what other rules found.
"""

from collections.abc import Sequence

from mgn.passes.saturate.egraph.engine import LEAST_RATION, RATION, SaturatedGraph
from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.rules.table import BUILT_IN

FORMS = 4
"""E-nodes for each match that one rule may have. The search still looks for kernels in an e-graph
that was cut off, beside another one, if it has at most so many.
"""


def rules_to_leave_out(graph: SaturatedGraph, rules: Sequence[Rule]) -> list[Rule]:
    """The user's rules that used up their matches; where there is none, all of the user's rules
    that acted.
    """
    if graph.saturated:
        return []
    own = set(BUILT_IN)
    acted = [rule for rule in rules if rule not in own and graph.fired.get(rule.name)]
    return [rule for rule in acted if rule.name in graph.stopped] or acted


def is_worth_a_choice(graph: SaturatedGraph) -> bool:
    """Whether an e-graph that was cut off is small enough for a second search for kernels."""
    return graph.node_count <= FORMS * (RATION * graph.facts.given + LEAST_RATION)
