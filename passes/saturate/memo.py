"""Choices of kernels remembered within a process: an equal graph is not saturated again.

In: a graph, the device, the options and the rules. Out: the classes and kernels chosen the last
time that all of these were equal, or nothing.

Two graphs are equal here when they are written the same: operations in order, attributes, types,
operands, what is returned. Of source locations only their presence is compared; those of the new
graph are put in.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import UnknownLoc

from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.encoding.facts import Interner
from mgn.passes.saturate.extraction.report import SaturateReport
from mgn.passes.saturate.extraction.selection import Selection
from mgn.passes.saturate.rules.rule import Rule

REMEMBERED = 8
"""Graphs that are kept; the one unused for longest is dropped."""


@dataclass
class Choice:
    """What was chosen for a graph: its view, the chosen kernels alone, and the report.

    `origins` says which operation of the graph, counted from 0, a class has its source location
    from.
    """

    view: View
    origins: Mapping[int, int]
    found: CandidateSet
    selection: Selection
    report: SaturateReport

    def view_at(self, graph: GraphOp) -> View:
        """The view, with the source locations of an equal graph."""
        places = [op.location for op in graph.block.ops]
        locations = {key: places[number] for key, number in self.origins.items()}
        return replace(self.view, locations=locations)


_CHOICES: OrderedDict[Hashable, Choice] = OrderedDict()


class ChoiceKey:
    """Parts that are compared one by one, and hashed once."""

    __slots__ = ("hash", "parts")

    def __init__(self, *parts: Hashable) -> None:
        self.parts = parts
        self.hash = hash(parts)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChoiceKey) and self.parts == other.parts


def choice_key(graph: GraphOp, device: Device, options: object, rules: Sequence[Rule]) -> Hashable:
    """All that a choice depends on."""
    attributes = Interner()
    rows, attribute_list = _rows_of(graph, attributes), attributes.things
    return ChoiceKey(tuple(rows), tuple(attribute_list), repr(device), options, tuple(rules))


def _rows_of(graph: GraphOp, attributes: Interner) -> list[Hashable]:
    """The inputs' types and a row an operation, with values and attributes as numbers."""
    values: dict[int, int] = {}
    for argument in graph.block.args:
        values[id(argument)] = len(values)
    rows: list[Hashable] = [tuple([attributes(item.type) for item in graph.block.args])]
    rows.append(tuple(graph.overwritten))
    for op in graph.block.ops:
        operands = tuple([values[id(operand)] for operand in op.operands])
        properties = tuple([(name, attributes(item)) for name, item in op.properties.items()])
        types: list[int] = []
        for result in op.results:
            values[id(result)] = len(values)
            types.append(attributes(result.type))
        placed = not isinstance(op.location, UnknownLoc)
        rows.append((type(op), operands, properties, tuple(types), placed))
    return rows


def recall(key: Hashable) -> Choice | None:
    """The choice made for an equal graph, if there is one."""
    choice = _CHOICES.get(key)
    if choice is not None:
        _CHOICES.move_to_end(key)
    return choice


def choice_of(
    graph: GraphOp,
    view: View,
    found: CandidateSet,
    selection: Selection,
    report: SaturateReport,
) -> Choice:
    """A choice, with the chosen ones alone of the candidates."""
    chosen = CandidateSet(outputs=found.outputs, handed=found.handed)
    numbers: dict[int, int] = {}
    for number in selection.kernels:
        numbers[number] = len(chosen.candidates)
        candidate = found.candidates[number]
        chosen.add(candidate.template, candidate.classes)
    writer = {item: numbers[n] for item, n in selection.writer.items() if n in numbers}
    kept = Selection(writer, list(numbers.values()), selection.cost)
    places: dict[int, int] = {}
    for number, op in enumerate(graph.block.ops):
        places.setdefault(id(op.location), number)
    origins = {key: places[id(place)] for key, place in view.locations.items()}
    return Choice(view, origins, chosen, kept, report)


def remember(key: Hashable, choice: Choice) -> None:
    """Keeps a choice for equal graphs."""
    _CHOICES[key] = choice
    while len(_CHOICES) > REMEMBERED:
        _CHOICES.popitem(last=False)


def forget_choices() -> None:
    """Drops everything remembered."""
    _CHOICES.clear()
