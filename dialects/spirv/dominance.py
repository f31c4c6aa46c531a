"""Which blocks every way to a block goes through.

In: the labels of a function, entry first, and where each goes. Out: `Dominance`, which answers
whether one block dominates another, in constant time. After Cooper, Harvey and Kennedy, "A Simple,
Fast Dominance Algorithm".
"""

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue


class Dominance:
    """The dominator tree of the blocks that control can come to."""

    def __init__(self, entry: SSAValue, targets: Mapping[SSAValue, Sequence[SSAValue]]) -> None:
        order = _postorder(entry, targets)
        self._number = {label: number for number, label in enumerate(order)}
        self._parent: dict[SSAValue, SSAValue] = {entry: entry}
        predecessors: dict[SSAValue, list[SSAValue]] = {label: [] for label in order}
        for label in order:
            for target in targets[label]:
                predecessors[target].append(label)
        changed = True
        while changed:
            changed = False
            for label in reversed(order[:-1]):
                known = [item for item in predecessors[label] if item in self._parent]
                parent = known[0]
                for other in known[1:]:
                    parent = self._common(parent, other)
                if self._parent.get(label) is not parent:
                    self._parent[label] = parent
                    changed = True
        self._span = self._spans(entry, order)

    def reaches(self, label: SSAValue) -> bool:
        """Whether control can come to a block."""
        return label in self._number

    def dominates(self, above: SSAValue, below: SSAValue) -> bool:
        """Whether every way to a block has gone through another, or it is the same."""
        if above not in self._span:
            return False
        first, last = self._span[above]
        return first <= self._span[below][0] <= last

    def _common(self, left: SSAValue, right: SSAValue) -> SSAValue:
        number, parent = self._number, self._parent
        while left is not right:
            if number[left] < number[right]:
                left = parent[left]
            else:
                right = parent[right]
        return left

    def _spans(self, entry: SSAValue, order: Sequence[SSAValue]) -> dict[SSAValue, tuple[int, int]]:
        """For each block, its number in a walk of the tree, and that of the last one below it."""
        children: dict[SSAValue, list[SSAValue]] = {label: [] for label in order}
        for label, parent in self._parent.items():
            if label is not entry:
                children[parent].append(label)
        sizes = dict.fromkeys(order, 1)
        walk = [entry]
        for label in walk:
            walk.extend(children[label])
        for label in reversed(walk[1:]):
            sizes[self._parent[label]] += sizes[label]
        spans = {entry: (0, sizes[entry] - 1)}
        for label in walk:
            first = spans[label][0] + 1
            for child in children[label]:
                spans[child] = (first, first + sizes[child] - 1)
                first += sizes[child]
        return spans


def _postorder(entry: SSAValue, targets: Mapping[SSAValue, Sequence[SSAValue]]) -> list[SSAValue]:
    """The blocks that control can come to, each after those that it goes to, where it can be."""
    order: list[SSAValue] = []
    seen = {entry}
    pending = [(entry, iter(targets[entry]))]
    while pending:
        label, rest = pending[-1]
        following = next((target for target in rest if target not in seen), None)
        if following is None:
            order.append(label)
            pending.pop()
        else:
            seen.add(following)
            pending.append((following, iter(targets[following])))
    return order
