"""The repeated layers of a program: the same operations again and again, as in a network.

In: the facts of a program. Out: its `RepeatedLayers`, or nothing where no layers repeat. They are
*orbits*: the values that one operation of the repeated region has in one layer after the other.

    h0 = matmul(x, w0)    h1 = matmul(y0, w1)    h2 = matmul(y1, w2)        orbit (h0, h1, h2)
    y0 = relu(h0)         y1 = relu(h1)          y2 = relu(h2)              orbit (y0, y1, y2)

An operation of an orbit reads the same in every layer. An operand is one value for all layers, or
the value of one orbit in the same layer, in the layer before, or in the layer after. So one orbit
leads to another along operands and readers, wherever its values stand in the program. A backward
pass comes to the layers in the opposite order. It belongs to the layers that it reads, and so does
an optimiser's step.
"""

from bisect import bisect, bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from operator import neg
from typing import Any

from mgn.passes.saturate.encoding.facts import Facts, Leaf, NodeFact

FEWEST = 10
"""The fewest layers that count as a repetition."""
UNEVEN = 3
"""Layers at the ends of a program in which an operation may be missing, or be another one."""
DEPTH = 4
"""Steps towards operands that tell operations apart, from which the first orbit is chosen."""
SEEDS = 4
"""Operations that are tried as the first orbit."""
STRETCHES = 16
"""Passes over all layers that a program may make, as forward, backward and update."""

UNITED = -1, -2
"""What stands for an operand's place between a composite and its decomposition."""

Values = tuple[int, ...]


@dataclass(frozen=True)
class RepeatedLayers:
    """Orbits, each with one value for each layer, and the orbit and the layer of each such
    value.
    """

    orbits: tuple[Values, ...]
    place: dict[int, tuple[int, int]]
    count: int


def find_layers(facts: Facts) -> RepeatedLayers | None:
    """The layers of a program that has just been entered into facts."""
    search = _Search(facts)
    for seed in search.seeds():
        found = search.layers_from(seed)
        if found is not None:
            return found
    return None


class _Search:
    """A program's e-nodes and leaves with what they look like, and the readers of each value."""

    def __init__(self, facts: Facts) -> None:
        numbers: dict[Any, int] = {}
        self.looks: list[int] = []
        self.operands: list[Values] = []
        self.readers: list[list[tuple[int, int]]] = [[] for _ in facts.definitions]
        for handle, thing in enumerate(facts.definitions):
            read = thing.operands if isinstance(thing, NodeFact) else ()
            look = _look(thing, facts.type_numbers[handle])
            self.looks.append(numbers.setdefault(look, len(numbers)))
            self.operands.append(read)
            for slot, item in enumerate(read):
                self.readers[item].append((handle, slot))
        self.unions = list(facts.new_unions)
        for left, right in self.unions:
            self.readers[left].append((right, UNITED[0]))
            self.readers[right].append((left, UNITED[1]))

    def seeds(self) -> Iterator[Values]:
        """Values that look alike, several steps towards their operands: first those of which there
        are as many as of most others.
        """
        looks = self.looks
        for _ in range(DEPTH):
            numbers: dict[Any, int] = {}
            looks = [
                numbers.setdefault((look, *[looks[item] for item in read]), len(numbers))
                for look, read in zip(looks, self.operands, strict=True)
            ]
        alike: dict[int, list[int]] = defaultdict(list)
        for handle, look in enumerate(looks):
            if self.operands[handle]:
                alike[look].append(handle)
        counts = Counter(len(handles) for handles in alike.values() if len(handles) >= FEWEST)
        for count, _ in counts.most_common(SEEDS):
            yield next(tuple(handles) for handles in alike.values() if len(handles) == count)

    def layers_from(self, seed: Values) -> RepeatedLayers | None:
        """All orbits that hang together with a first one; None where something in them is not
        repeated.
        """
        growth = _Growth(self, len(seed))
        growth.enter(list(seed))
        growth.grow()
        if len(growth.stretches) > STRETCHES:
            return None
        grown = growth.aligned()
        first = max(orbit.first for orbit in grown)
        end = min(orbit.first + len(orbit.values) for orbit in grown)
        if end - first < FEWEST:
            return None
        orbits = tuple(orbit.values[first - orbit.first : end - orbit.first] for orbit in grown)
        place = {
            handle: (number, layer)
            for number, values in enumerate(orbits)
            for layer, handle in enumerate(values)
        }
        found = RepeatedLayers(orbits, place, end - first)
        regular = all(self._reads_alike(values, found) for values in orbits)
        return found if regular and self._united_alike(found) else None

    def _reads_alike(self, values: Values, found: RepeatedLayers) -> bool:
        """Whether an orbit's operands are one value for all, or an orbit's, at one distance."""
        middle = found.count // 2
        for slot in range(len(self.operands[values[0]])):
            read = tuple([self.operands[value][slot] for value in values])
            place = found.place.get(read[middle])
            if place is None:
                if read.count(read[middle]) < found.count:
                    return False
                continue
            orbit, distance = found.orbits[place[0]], place[1] - middle
            if abs(distance) > 1:
                return False
            inside = slice(max(0, -distance), found.count - max(0, distance))
            there = slice(max(0, distance), found.count - max(0, -distance))
            outer = read[: inside.start] + read[inside.stop :]
            if read[inside] != orbit[there] or any(item in found.place for item in outer):
                return False
        return True

    def _united_alike(self, found: RepeatedLayers) -> bool:
        """Whether the program's unions are those of one layer in every layer."""
        united: Counter[tuple[int, int]] = Counter()
        for left, right in self.unions:
            one, other = found.place.get(left), found.place.get(right)
            if one is not None and other is not None and one[1] == other[1]:
                united[one[0], other[0]] += 1
            elif one is not None or other is not None:
                return False
        return all(count == found.count for count in united.values())


@dataclass(frozen=True)
class _Orbit:
    """Values of the layers from `first` on, in a stretch of the program."""

    first: int
    values: Values
    stretch: int


class _Growth:
    """Orbits found from orbits that are known.

    Values of different orbits that follow each other in the program, layer by layer, are a
    *stretch* of it. In a stretch the first orbit says where layers begin, so that what is read is
    of the same layer or, always, of the one entered before it.
    """

    def __init__(self, search: _Search, count: int) -> None:
        self.search = search
        self.count, self.middle = count, count // 2
        self.orbits: list[_Orbit] = []
        self.home: dict[int, int] = {}
        self.stretches: list[_Orbit] = []

    def enter(self, values: Sequence[int | None], first: int = 0) -> None:
        """Enters an orbit: those values about the middle layer that look alike there, and that are
        about it, too, where layers come to begin one earlier or later.
        """
        middle, looks = self.middle - first, self.search.looks
        value = values[middle]
        if value is None or value in self.home:
            return
        look, start, end = looks[value], middle, middle + 1
        while start and self._fits(values[start - 1], look):
            start -= 1
        while end < len(values) and self._fits(values[end], look):
            end += 1
        found = tuple([item for item in values[start:end] if item is not None])
        if len(set(found)) < len(found) or len(found) < max(FEWEST, self.count - UNEVEN):
            return
        orbit = self._placed(found, first + start)
        if orbit.first < self.middle < orbit.first + len(found) - 1:
            self.home.update(dict.fromkeys(found, len(self.orbits)))
            self.orbits.append(orbit)

    def _placed(self, values: Values, first: int) -> _Orbit:
        """An orbit in its stretch, of which it may be the first."""
        value = values[self.middle - first]
        for stretch in self.stretches:
            known = stretch.values
            if min(known[0], known[-1]) <= value < max(known[0], known[-1]):
                falls = known[0] > known[-1]
                place = bisect_left(known, -value, key=neg) if falls else bisect(known, value) - 1
                first += stretch.first + place - self.middle
                return _Orbit(first, values, stretch.stretch)
        self.stretches.append(_Orbit(first, values, len(self.stretches)))
        return self.stretches[-1]

    def aligned(self) -> list[_Orbit]:
        """The orbits: in each stretch layers begin where the fewest values are still to be read,
        and they are those of the earlier stretches that it reads or that read it.
        """
        for stretch in self.stretches:
            self._begin_where_least_is_read(stretch)
        distances: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
        for orbit, other, distance in self._reads():
            distances[orbit.stretch][other.stretch].add(distance)
            distances[other.stretch][orbit.stretch].add(-distance)
        moved = [0] * len(self.stretches)
        for number in range(1, len(moved)):
            known = [
                distance + moved[other]
                for other, found in distances[number].items()
                if other < number
                for distance in found
            ]
            moved[number] = (min(known) + max(known)) // 2 if known else 0
        return [replace(orbit, first=orbit.first + moved[orbit.stretch]) for orbit in self.orbits]

    def _begin_where_least_is_read(self, stretch: _Orbit) -> None:
        """Lets the layers of a stretch begin elsewhere: orbits before that go to the layer that
        the stretch comes to earlier.
        """
        own = [n for n, orbit in enumerate(self.orbits) if orbit.stretch == stretch.stretch]
        own.sort(key=lambda number: self._in_middle(self.orbits[number]))
        place = {self._in_middle(self.orbits[number]): at for at, number in enumerate(own)}
        changes = [0] * (len(own) + 1)
        for orbit, other, distance in self._reads():
            if orbit.stretch == other.stretch == stretch.stretch:
                start, end = place[self._in_middle(other)] + 1, place[self._in_middle(orbit)] + 1
                around = ((start, len(own)), (0, end))
                for low, high in around if distance else ((start, end),):
                    changes[low] += 1
                    changes[high] -= 1
        still_read = list(accumulate(changes[:-1]))
        begin = still_read.index(min(still_read))
        earlier = -1 if stretch.values[0] < stretch.values[-1] else 1
        for number in own[:begin]:
            orbit = self.orbits[number]
            self.orbits[number] = replace(orbit, first=orbit.first + earlier)

    def _in_middle(self, orbit: _Orbit) -> int:
        return orbit.values[self.middle - orbit.first]

    def _reads(self) -> Iterator[tuple[_Orbit, _Orbit, int]]:
        """The orbits that an orbit's middle value reads, and how many layers later these are."""
        for orbit in self.orbits:
            for item in self.search.operands[self._in_middle(orbit)]:
                if item in self.home:
                    other = self.orbits[self.home[item]]
                    yield orbit, other, other.first + other.values.index(item) - self.middle

    def _fits(self, value: int | None, look: int) -> bool:
        return value is not None and self.search.looks[value] == look and value not in self.home

    def grow(self) -> None:
        """Follows operands and readers of all orbits, also of those found on the way."""
        search, done = self.search, 0
        while done < len(self.orbits) and len(self.stretches) <= STRETCHES:
            orbit = self.orbits[done]
            done += 1
            for slot in range(len(search.operands[orbit.values[0]])):
                self.enter([search.operands[value][slot] for value in orbit.values], orbit.first)
            for look, slot in self._single_readers(orbit.values[self.middle - orbit.first]):
                found = [self._reader(value, look, slot) for value in orbit.values]
                self.enter(found, orbit.first)

    def _single_readers(self, value: int) -> list[tuple[int, int]]:
        """Looks and places of a value's readers, those that only one has."""
        looks = self.search.looks
        counts = Counter((looks[reader], slot) for reader, slot in self.search.readers[value])
        return [key for key, count in counts.items() if count == 1]

    def _reader(self, value: int, look: int, slot: int) -> int | None:
        """The one reader that looks so and reads the value there."""
        looks = self.search.looks
        found = [
            reader
            for reader, at in self.search.readers[value]
            if at == slot and looks[reader] == look
        ]
        return found[0] if len(found) == 1 else None


def _look(thing: NodeFact | Leaf, type: int) -> Any:
    """What values of one orbit have in common: all but whose operands or which parameter they are;
    a constant is like no other.
    """
    if isinstance(thing, NodeFact):
        return thing.name, thing.attributes, type, len(thing.operands)
    return thing if thing.kind == "constant" else (thing.kind, type)
