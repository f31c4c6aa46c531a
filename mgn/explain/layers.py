"""Places the nodes of a directed acyclic graph in layers, for drawing.

In: nodes with their widths, edges from sources to targets. Out: a place for every node, and for
every edge the points that it goes through.

The method is that of K. Sugiyama, S. Tagawa and M. Toda ("Methods for visual understanding of
hierarchical system structures", 1981). Layers are by the longest path. Edges over several layers
are cut by points of their own. Each layer is ordered by the neighbours' means. Places are then near
those of the neighbours.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

SWEEPS = 6
GAP = 14.0
POINT_WIDTH = 8.0

Node = Hashable


@dataclass
class Layout:
    """The centre of each node: across and layer. `routes` are the points of edges between ends."""

    across: dict[Node, float] = field(default_factory=dict[Node, float])
    layer: dict[Node, int] = field(default_factory=dict[Node, int])
    routes: dict[tuple[Node, Node], list[Node]] = field(
        default_factory=dict[tuple[Node, Node], list[Node]]
    )
    width: float = 0.0
    layers: int = 0


def lay_out(widths: Mapping[Node, float], edges: Sequence[tuple[Node, Node]]) -> Layout:
    """The layout of a graph; edges that lead back are left out of the layering."""
    layout = Layout()
    known = dict.fromkeys((a, b) for a, b in edges if a != b and a in widths and b in widths)
    layout.layer = _layers(list(widths), list(known))
    all_widths = dict(widths)
    short: list[tuple[Node, Node]] = []
    for number, (source, target) in enumerate(known):
        route: list[Node] = []
        for level in range(layout.layer[source] + 1, layout.layer[target]):
            point = ("point", number, level)
            layout.layer[point] = level
            all_widths[point] = POINT_WIDTH
            route.append(point)
        layout.routes[(source, target)] = route
        chain = [source, *route, target]
        short += pairwise(chain)
    _Placer(layout, all_widths, short).place()
    return layout


def _layers(nodes: Sequence[Node], edges: Sequence[tuple[Node, Node]]) -> dict[Node, int]:
    """The longest path to each node; sources without inputs stand just above their first user.

    In a cycle the first node does not wait for the others.
    """
    into: dict[Node, int] = dict.fromkeys(nodes, 0)
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    for source, target in edges:
        into[target] += 1
        users[source].append(target)
    level = dict.fromkeys(nodes, 0)
    waiting = dict(into)
    ready = [node for node in nodes if not into[node]]
    order: dict[Node, None] = {}
    rest = iter(nodes)
    while len(order) < len(nodes):
        node = ready.pop() if ready else next(item for item in rest if item not in order)
        if node in order:
            continue
        order[node] = None
        for user in users[node]:
            if user in order:
                continue
            level[user] = max(level[user], level[node] + 1)
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    for node in order:
        if not into[node] and users[node]:
            level[node] = min(level[user] for user in users[node]) - 1
    return level


class _Placer:
    def __init__(
        self,
        layout: Layout,
        widths: Mapping[Node, float],
        edges: Sequence[tuple[Node, Node]],
    ) -> None:
        self.layout = layout
        self.widths = widths
        self.above: dict[Node, list[Node]] = {node: [] for node in widths}
        self.below: dict[Node, list[Node]] = {node: [] for node in widths}
        for source, target in edges:
            self.above[target].append(source)
            self.below[source].append(target)
        layout.layers = 1 + max(layout.layer.values(), default=0)
        self.rows: list[list[Node]] = [[] for _ in range(layout.layers)]
        for node in widths:
            self.rows[layout.layer[node]].append(node)

    def place(self) -> None:
        across = self.layout.across
        for row in self.rows:
            self._spread(row, dict.fromkeys(row, 0.0))
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for row in self.rows if down else reversed(self.rows):
                wanted = {node: self._mean(node, near) for node in row}
                row.sort(key=lambda node: wanted[node])
                self._spread(row, wanted)
        for _ in range(SWEEPS):
            for row in (*self.rows, *reversed(self.rows)):
                wanted = {
                    node: (self._mean(node, self.above) + self._mean(node, self.below)) / 2
                    for node in row
                }
                self._spread(row, wanted)
        left = min((across[n] - self.widths[n] / 2 for n in across), default=0.0)
        for node in across:
            across[node] -= left
        self.layout.width = max((across[n] + self.widths[n] / 2 for n in across), default=0.0)

    def _mean(self, node: Node, near: Mapping[Node, list[Node]]) -> float:
        across = self.layout.across
        places = [across[other] for other in near[node] if other in across]
        return sum(places) / len(places) if places else across.get(node, 0.0)

    def _spread(self, row: Sequence[Node], wanted: Mapping[Node, float]) -> None:
        """Places of a row near those wanted, without overlap: the mean of leaning either way."""
        if not row:
            return
        half = [self.widths[node] / 2 for node in row]
        right = [wanted[node] for node in row]
        left = list(right)
        for i in range(1, len(row)):
            right[i] = max(right[i], right[i - 1] + half[i - 1] + GAP + half[i])
        for i in range(len(row) - 2, -1, -1):
            left[i] = min(left[i], left[i + 1] - half[i + 1] - GAP - half[i])
        for node, a, b in zip(row, left, right, strict=True):
            self.layout.across[node] = (a + b) / 2
