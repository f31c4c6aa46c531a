"""Choices of kernels remembered within a process: an equal graph is not saturated again.

In: the facts of a graph before saturation, the device, the options and the rules. Out: the classes
and kernels chosen the last time that all of these were equal, or nothing.

Two graphs are equal here when their facts are: operations, attributes, types, leaves, order and
outputs. Source locations are not compared; those of the new graph are put in.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates import CandidateSet
from mgn.passes.saturate.encode import EncodedGraph
from mgn.passes.saturate.report import SaturateReport
from mgn.passes.saturate.rule import Rule
from mgn.passes.saturate.selection import Selection
from mgn.passes.saturate.view import View

REMEMBERED = 8
"""Graphs that are kept; the one unused for longest is dropped."""


@dataclass
class Choice:
    """What was chosen for a graph: its view, the chosen kernels alone, and the report.

    `origins` says which value of the program a class has its source location from.
    """

    view: View
    origins: Mapping[int, int]
    found: CandidateSet
    selection: Selection
    report: SaturateReport

    def view_at(self, encoded: EncodedGraph) -> View:
        """The view, with the source locations of an equal graph."""
        places = encoded.facts.locations
        locations = {key: places[handle] for key, handle in self.origins.items()}
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


def choice_key(
    encoded: EncodedGraph, device: Device, options: object, rules: Sequence[Rule]
) -> Hashable:
    """All that a choice depends on. To be taken before saturation, which adds facts."""
    facts = encoded.facts
    return ChoiceKey(
        tuple(facts.handles),
        tuple(facts.types.things),
        tuple(facts.properties.things),
        tuple(facts.new_unions),
        tuple(facts.locations),
        tuple(encoded.outputs),
        repr(device),
        options,
        tuple(rules),
    )


def recall(key: Hashable) -> Choice | None:
    """The choice made for an equal graph, if there is one."""
    choice = _CHOICES.get(key)
    if choice is not None:
        _CHOICES.move_to_end(key)
    return choice


def choice_of(
    encoded: EncodedGraph,
    view: View,
    found: CandidateSet,
    selection: Selection,
    report: SaturateReport,
) -> Choice:
    """A choice, with the chosen ones alone of the candidates."""
    chosen = CandidateSet(outputs=found.outputs)
    numbers: dict[int, int] = {}
    for number in selection.kernels:
        numbers[number] = len(chosen.candidates)
        candidate = found.candidates[number]
        chosen.add(candidate.template, candidate.classes)
    writer = {item: numbers[n] for item, n in selection.writer.items() if n in numbers}
    kept = Selection(writer, list(numbers.values()), selection.cost)
    places = encoded.facts.locations
    handles = {id(places[handle]): handle for handle in sorted(places, reverse=True)}
    origins = {key: handles[id(place)] for key, place in view.locations.items()}
    return Choice(view, origins, chosen, kept, report)


def remember(key: Hashable, choice: Choice) -> None:
    """Keeps a choice for equal graphs."""
    _CHOICES[key] = choice
    while len(_CHOICES) > REMEMBERED:
        _CHOICES.popitem(last=False)


def forget_choices() -> None:
    """Drops everything remembered."""
    _CHOICES.clear()
