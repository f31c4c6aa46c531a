"""The values that a node can name: those of its graph, and of the graphs around it.

In: names. Out: what they stand for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Absent(Enum):
    """What an optional value is that holds nothing."""

    NOTHING = "nothing"


NOTHING = Absent.NOTHING


@dataclass
class Scope:
    """Values by name: SSA values, sequences of them, nothing, or arrays that no node has read."""

    values: dict[str, Any]
    opsets: dict[str, int]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    outer: "Scope | None" = None
    depth: int = 0

    def find(self, name: str) -> tuple["Scope", Any] | None:
        """The scope that has a name, and what it has."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope, scope.values[name]
            scope = scope.outer
        return None

    def inner(self, values: dict[str, Any]) -> "Scope":
        """A scope of a graph inside."""
        return Scope(values, self.opsets, self.attributes, self, self.depth + 1)
