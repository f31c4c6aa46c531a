"""What a text names: symbols, and the places that mean them.

In: nothing. Out: the plain data that `reader.py` makes of a text and that all answers are given
from. Places count from 1, as in the compiler's messages.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from mgn.frontend.syntax.ast import Place


class Kind(StrEnum):
    """What a symbol is, as a reader would call it."""

    CONST = "const"
    FN = "fn"
    GRAPH = "graph"
    PARAM = "param"
    STATE = "state"
    DIMENSION = "dimension"
    INPUT = "input"
    FORMAL = "parameter"
    VARIABLE = "variable"
    LOOP = "loop variable"


class Role(StrEnum):
    """What a name does where it stands."""

    DECLARES = "declares"
    BINDS = "binds again"
    READS = "reads"
    CALLS = "calls"
    NAMES_ARGUMENT = "names an argument"
    NAMES_RESULT = "names a result"
    INITIALISES = "initialises"
    IS_TYPE = "is a type"
    IS_MEMBER = "is a member"


@dataclass(eq=False, slots=True)
class Scope:
    """A part of a text in which names are known. A frame hides what is around it."""

    begin: Place
    is_frame: bool = False
    owner: "Symbol | None" = None
    end: Place = (1 << 60, 0)
    names: "dict[str, Symbol]" = field(default_factory=dict[str, "Symbol"])


@dataclass(eq=False, slots=True)
class Symbol:
    """A name that something was given. `statement` is where its value is seen by the compiler, and
    `formals` are the arguments that a call can name.
    """

    name: str
    kind: Kind
    place: Place
    scope: Scope
    statement: Place
    head: str = ""
    """Its declaration up to a block, on one line; empty for a variable."""
    external_place: Place | None = None
    """Where `as "name"` would stand, of a parameter or state that has none."""
    end: Place = (0, 0)
    """Where its statement ends."""
    formals: "list[Symbol]" = field(default_factory=list["Symbol"])
    members: "list[Symbol]" = field(default_factory=list["Symbol"])
    """What is declared inside."""
    occurrences: "list[Occurrence]" = field(default_factory=list["Occurrence"])

    @property
    def is_global(self) -> bool:
        """Whether it is known in all of the file, and in those that import it."""
        return self.scope.owner is None and not self.scope.is_frame


@dataclass(eq=False, slots=True)
class Occurrence:
    """A name in the text. `symbol` is None where the text does not declare it. `callee` is what an
    argument's name belongs to. `is_result` holds where `return` takes it as a result's name.
    """

    name: str
    place: Place
    role: Role
    symbol: Symbol | None = None
    callee: str | None = None
    is_result: bool = False

    @property
    def end(self) -> Place:
        """The place behind it."""
        return self.place[0], self.place[1] + len(self.name)


@dataclass(eq=False, slots=True)
class Reading:
    """A text as names see it. `imports` are the paths that it names, and where each stands."""

    occurrences: list[Occurrence]
    globals: dict[str, Symbol]
    scopes: list[Scope]
    imports: list[tuple[str, Place, Place]]

    def at(self, place: Place) -> Occurrence | None:
        """The name at a place, or one that ends there."""
        found = None
        for item in self.occurrences:
            if item.place[0] == place[0] and item.place <= place <= item.end:
                if item.place <= place < item.end:
                    return item
                found = item
        return found

    def visible(self, place: Place) -> Iterator[Symbol]:
        """The symbols that a name at a place could mean, those of the innermost block first."""
        inside = [item for item in self.scopes if item.begin <= place <= item.end]
        for scope in reversed(inside):
            yield from (item for item in scope.names.values() if item.place < place)
            if scope.is_frame:
                break
        yield from self.globals.values()
