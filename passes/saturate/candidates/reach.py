"""Whether computing one class of a view may need another: reachability by labels and search.

In: a view, whose classes are in order, operands before users. Out: `Reach.depends`.

Each class has two labels, places in the order: the earliest place that it reaches, and the start of
a run of places, up to its own, all of which it reaches. Most questions end at the labels; the rest
are searched (H. Yıldırım, V. Chaoji, M. Zaki, "GRAIL: scalable reachability index for large
graphs", VLDB 2010).
"""

from mgn.passes.saturate.egraph.view import View


class Reach:
    """The dependencies between the classes of a view."""

    def __init__(self, view: View) -> None:
        self.position: dict[int, int] = {}
        self.operands: list[list[int]] = []
        self.earliest: list[int] = []
        self.run: list[int] = []
        self.known: dict[tuple[int, int], bool] = {}
        position, earliest, run = self.position, self.earliest, self.run
        for place, value in enumerate(view.classes.values()):
            position[value.key] = first = start = place
            found = {position[item] for member in value.members for item in member.operands}
            operands = sorted(found, reverse=True)
            for item in operands:
                if item >= start - 1 and run[item] < start:
                    start = run[item]
                if earliest[item] < first:
                    first = earliest[item]
            self.operands.append(operands)
            earliest.append(first)
            run.append(start)

    def depends(self, key: int, other: int) -> bool:
        """Whether some form of `key` uses `other`, directly or not, or is it."""
        place, target = self.position[key], self.position[other]
        decided = self._by_labels(place, target)
        if decided is not None:
            return decided
        known = self.known.get((place, target))
        if known is None:
            known = self.known[place, target] = self._search(place, target)
        return known

    def _by_labels(self, place: int, target: int) -> bool | None:
        if place < target or self.earliest[place] > target:
            return False
        return True if self.run[place] <= target else None

    def _search(self, place: int, target: int) -> bool:
        pending, seen = [place], {place}
        while pending:
            for item in self.operands[pending.pop()]:
                if item in seen:
                    continue
                decided = self._by_labels(item, target)
                if decided:
                    return True
                if decided is None:
                    seen.add(item)
                    pending.append(item)
        return False
