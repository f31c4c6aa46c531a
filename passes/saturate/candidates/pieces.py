"""What an arrangement of a kernel comes to: its kernels, over names that its body decides alone.

In: a template over names of a cut list. Out: the same over its own names, an `Outline` over these.

    body       0 1 2 …, as the body mentions them
    made       the numbers that follow
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType

from mgn.passes.saturate.candidates.candidates import Template
from mgn.passes.saturate.prices.bodies import Body, BodyNode, Names, renamed
from mgn.passes.saturate.prices.forms import Facts, Form


@dataclass(frozen=True)
class NewValue:
    """A value that an arrangement makes: its type and its e-node."""

    type: TensorType
    signature: int
    operands: tuple[int, ...]


@dataclass(frozen=True)
class Piece:
    """A kernel of an arrangement, and its price where it runs each time."""

    body: Body
    form: Form
    results: tuple[int, ...]
    reads: tuple[int, ...]
    price: float
    facts: Facts

    def at(self, names: Names) -> "Piece":
        """The same kernel over other names."""
        results, reads = (
            tuple([names[item] for item in items]) for items in (self.results, self.reads)
        )
        body, form = renamed(self.body, names), self.form.at(names)
        return Piece(body, form, results, reads, self.price, self.facts)


@dataclass(frozen=True)
class Outline:
    """The kernels of an arrangement; what they make, and further e-nodes of what the body has."""

    made: Sequence[NewValue]
    members: Sequence[BodyNode]
    pieces: Sequence[Piece]


class OwnNames:
    """A template over names that its body decides alone; `outside[i]` is what i is there."""

    def __init__(self, template: Template) -> None:
        self.template = template
        names: dict[int, int] = {}
        own = names.setdefault
        self.body = tuple(
            [
                (own(name, len(names)), number, tuple([own(item, len(names)) for item in operands]))
                for name, number, operands in template.body
            ]
        )
        self.reads = tuple([own(name, len(names)) for name in template.reads])
        self.results = tuple([names[name] for name in template.results])
        self.outside = tuple(names)

    @property
    def heavy(self) -> int | None:
        """The name of the heavy operation."""
        heavy = self.template.form.heavy
        return None if heavy is None else self.outside.index(heavy)
