"""One rewrite rule: a row of the rule table.

In: the texts of a row. Out: its patterns, its variables, and an error where it names what does not
exist.
"""

import ast
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from mgn.dialects.mgn import OPERATIONS
from mgn.passes.saturate.conditions import PREDICATES
from mgn.passes.saturate.patterns import (
    Call,
    Pattern,
    PatternError,
    calls_of,
    folded_variables,
    parse_conditions,
    parse_pattern,
    variables_of,
)


class RuleClass(StrEnum):
    """How equal the two sides of a rule are."""

    EXACT = "exact"
    REASSOCIATES = "reassociates"
    APPROXIMATES = "approximates"
    ROUNDS = "rounds"


@dataclass(frozen=True)
class Rule:
    """One row: a name, both sides, how equal they are, why they are, and when."""

    name: str
    left: str
    right: str
    equality: RuleClass
    reason: str
    when: str = ""

    @cached_property
    def left_pattern(self) -> Call:
        pattern = parse_pattern(self.left)
        if not isinstance(pattern, Call):
            raise PatternError(f"rule {self.name}: the left side must be an operation")
        return pattern

    @cached_property
    def right_pattern(self) -> Pattern:
        return parse_pattern(self.right)

    @cached_property
    def variables(self) -> list[str]:
        """The value variables that the left side binds."""
        return variables_of(self.left_pattern)

    @cached_property
    def constants(self) -> list[str]:
        """The variables that must be constants, because the rule asks or computes with them."""
        asked = {
            argument.id
            for call in self.conditions
            for argument in call.args
            if getattr(call.func, "id", "") == "constant" and isinstance(argument, ast.Name)
        }
        wanted = asked | folded_variables(self.right_pattern)
        return [name for name in self.variables if name in wanted]

    @cached_property
    def conditions(self) -> list[ast.Call]:
        """The predicates that must hold of a match."""
        return parse_conditions(self.when)

    def check(self) -> None:
        """Raises PatternError where the row names what does not exist."""
        for side in (self.left_pattern, self.right_pattern):
            for call in calls_of(side):
                if call.name not in OPERATIONS:
                    raise PatternError(f"rule {self.name}: unknown operation '{call.name}'")
        unbound = set(variables_of(self.right_pattern)) - set(self.variables)
        if unbound:
            raise PatternError(f"rule {self.name}: '{min(unbound)}' is not bound on the left")
        for condition in self.conditions:
            name = getattr(condition.func, "id", "?")
            if name not in PREDICATES:
                raise PatternError(f"rule {self.name}: unknown predicate '{name}'")
