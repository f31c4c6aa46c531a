"""One rewrite rule: a row of the rule table.

In: the texts of a row. Out: its patterns, its variables, and an error where it names what does not
exist.
"""

import ast
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import cast

from mgn.diagnostics import MgnError
from mgn.passes.saturate.rules.conditions import PREDICATES
from mgn.passes.saturate.rules.patterns import (
    Call,
    Number,
    Pattern,
    PatternError,
    aliases_of,
    calls_of,
    folded_variables,
    parse_pattern,
    variables_of,
)
from mgn.passes.saturate.rules.rule_check import check_patterns, parse_conditions

NAME = re.compile(r"[\w.-]+")


class RuleError(MgnError):
    """A rule whose condition or right side fails on a match, or that equates what differs."""


class RuleClass(StrEnum):
    """How equal the two sides of a rule are.

    Both sides of an *exact* rule have the same bits. Both sides of a *reassociates* rule have the
    same value over the reals; where the left side stays finite the right side does, and its error
    is at most 8 times the bound of the left side's error. A *fast* rule has the same value over the
    reals and no such promise: the right side may overflow or cancel where the left side does not.
    A *spreads* rewrite has the same value over the reals; neighbouring results share their errors,
    so that each is off by what the largest of all their terms lead to. An *approximates* rule
    changes the value. A *rounds* rule changes what a product's operands lose to `--precision`.
    """

    EXACT = "exact"
    REASSOCIATES = "reassociates"
    SPREADS = "spreads"
    FAST = "fast"
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
            raise PatternError(f"the left side must be an operation, as neg(x), not {self.left!r}")
        return pattern

    @cached_property
    def right_pattern(self) -> Pattern:
        return parse_pattern(self.right)

    @cached_property
    def constructors(self) -> frozenset[tuple[str, int]]:
        """The operations that the left side names, each with its number of operands."""
        return frozenset((call.name, len(call.operands)) for call in calls_of(self.left_pattern))

    @cached_property
    def literals(self) -> tuple[int | float, ...]:
        """The numbers that the left side names, in order, each once."""
        operands = [operand for call in calls_of(self.left_pattern) for operand in call.operands]
        return tuple(dict.fromkeys(item.value for item in operands if isinstance(item, Number)))

    @cached_property
    def variables(self) -> list[str]:
        """The value variables that the left side binds."""
        return variables_of(self.left_pattern)

    @cached_property
    def bound(self) -> list[str]:
        """The value variables, then the names that the left side gives its parts."""
        return [*self.variables, *aliases_of(self.left_pattern)]

    @cached_property
    def constants(self) -> list[str]:
        """The variables that must be constants, because the rule asks or computes with them."""
        asked = {
            call.args[0].id
            for call in self.conditions
            if PREDICATES[ast.unparse(call.func)].of_constant and isinstance(call.args[0], ast.Name)
        }
        wanted = asked | folded_variables(self.right_pattern)
        return [name for name in self.variables if name in wanted]

    @cached_property
    def conditions(self) -> list[ast.Call]:
        """The predicates that must hold of a match."""
        return parse_conditions(self.when)

    @cached_property
    def assumes_moderate(self) -> bool:
        """Whether it takes parameters to be moderate."""
        return any(ast.unparse(call.func) == "moderate_parameters" for call in self.conditions)

    def check(self) -> None:
        """Raises PatternError where the row is malformed or names what does not exist."""
        written = (self.name, self.left, self.right, self.reason, self.when)
        texts, equality = cast("tuple[object, ...]", written), cast("object", self.equality)
        if not all(isinstance(text, str) for text in texts) or not NAME.fullmatch(self.name):
            raise PatternError(f"a row is texts, its name words joined by '-': {self.name!r}")
        if not isinstance(equality, RuleClass):
            raise PatternError(f"rule {self.name}: {self.equality!r} is no RuleClass")
        try:
            check_patterns(self.left_pattern, self.right_pattern, self.conditions)
        except PatternError as error:
            raise PatternError(f"rule {self.name}: {error}") from error
