"""Equal layers of a program are saturated once: the middle ones of its e-graph are copies.

In: facts and rules. Out: the `SaturatedGraph` of all facts, from that of the deduplicated program.
Nothing where the program has no equal layers, or its e-graph has none: the program is then
saturated as a whole.

Three neighbours a, b, c of the deduplicated program have to be alike, value by value. The same
rules have acted on the same values in the same iterations. None of them reached further than to a
neighbour. They made the same e-nodes. Then the e-graph of a program with another b between b and c
is this e-graph with another b:

- It is sound, by induction over iterations. A rule that fired in layer b fires in each copy of b,
  because the copy and its neighbours have the same e-nodes as b and its neighbours.
- It is a fixpoint. A left side that matches in a copy, or from there to its neighbours, also
  matches in b. There its rule has acted.

So any number of copies of b may stand there.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

from mgn.passes.saturate.egraph.engine import (
    Application,
    ClassNode,
    SaturatedGraph,
    only_exact,
    pairs_commuted,
    saturate_facts,
)
from mgn.passes.saturate.encoding.deduplication import KEPT, Deduplicated, deduplicate
from mgn.passes.saturate.encoding.facts import Facts, Leaf, NodeFact
from mgn.passes.saturate.encoding.repeated_layers import find_layers
from mgn.passes.saturate.rules.patterns import Call
from mgn.passes.saturate.rules.rule import Rule

BEFORE, COPIED, AFTER = KEPT - 2, KEPT - 1, KEPT
"""The layers a, b and c of the deduplicated program."""
NONE = -1
"""The layer of a value that is in none of them: it is there once for all layers."""
NEAR = (NONE, BEFORE, COPIED, AFTER)


def saturate_layers(
    facts: Facts, rules: Sequence[Rule], time_budget: float, widen: bool
) -> SaturatedGraph | None:
    """The saturated graph of facts that repeat themselves; None where it has to be found as a
    whole.
    """
    layers = find_layers(facts)
    short = None if layers is None else deduplicate(facts, layers)
    if short is None:
        return None
    trail: list[Application] = []
    graph = saturate_facts(short.facts, rules, time_budget, trail=trail, widen=widen)
    if not graph.saturated:
        return None
    try:
        alike = _Alike(short, graph)
        alike.check(trail, rules)
    except _Unlike:
        return None
    return _LayerCopies(short, graph, alike).graph_of_all(trail, only_exact(rules))


class _Unlike(Exception):
    """Neighbours whose e-graphs differ, or rules that reach further than to a neighbour."""


class _Alike:
    """The handle and the class that take the place of each of a layer's in the next layer."""

    def __init__(self, short: Deduplicated, graph: SaturatedGraph) -> None:
        self.short, self.graph = short, graph
        self.class_of = graph.class_of
        self.layer: list[int] = []
        self.next: list[int | None] = []
        for handle, fact in enumerate(short.facts.definitions):
            place = short.place.get(handle)
            if place is not None:
                orbit, layer = short.orbits[place[0]], place[1]
                self._enter(layer, orbit[layer + 1] if layer + 1 < len(orbit) else None)
            elif handle < len(short.original) or isinstance(fact, Leaf):
                self._enter(NONE, handle)
            else:
                self._enter_made(handle, fact)

    def _enter(self, layer: int, following: int | None) -> None:
        self.layer.append(layer)
        self.next.append(following)

    def _enter_made(self, handle: int, fact: NodeFact) -> None:
        """Enters an e-node that a rule made: it is in the last of the layers that it reads."""
        layers = {self.layer[item] for item in fact.operands} - {NONE}
        if not layers:
            self._enter(NONE, handle)
            return
        if max(layers) - min(layers) > 1:
            raise _Unlike
        operands = [self.next[item] for item in fact.operands]
        following = None
        if None not in operands:
            following = self.short.facts.handles.get(fact._replace(operands=tuple(operands)))
        self._enter(max(layers), following)

    def check(self, trail: Iterable[Application], rules: Sequence[Rule]) -> None:
        """Raises _Unlike unless the three layers are alike."""
        self._check_actions(trail)
        self._check_values()
        self._check_classes()
        self._check_reach(rules)

    def following(self, key: int) -> int:
        """The class that takes a class's place in the next layer."""
        handle = self.next[key]
        if handle is None:
            raise _Unlike
        return self.class_of[handle]

    def _check_actions(self, trail: Iterable[Application]) -> None:
        """The same rules acted in the same iterations, on neighbours alone."""
        acted: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
        for item in trail:
            own = self.layer[item.root]
            touched = {self.layer[handle] for handle in (*item.row, item.result)} - {NONE}
            near = range(own - 1, own + 2) if own != NONE else (0, 2 * KEPT - 1)
            if any(layer not in near for layer in touched):
                raise _Unlike
            acted[own].add((item.rule, item.iteration, *item.row, item.result))
        for layer in (BEFORE, COPIED):
            moved = {
                (rule, iteration, *[self.next[handle] for handle in handles])
                for rule, iteration, *handles in acted[layer]
            }
            if moved != acted[layer + 1]:
                raise _Unlike

    def _check_values(self) -> None:
        """No value of the copied layer is one of a layer further away."""
        for handle in self.short.place:
            if self.layer[handle] == COPIED and self.layer[self.class_of[handle]] not in NEAR:
                raise _Unlike

    def _check_classes(self) -> None:
        """The same classes, of the same e-nodes, which read neighbours alone."""
        found: Counter[int] = Counter()
        for key, nodes in self.graph.nodes.items():
            own = self.layer[key]
            found[own] += 1
            near = (NONE, own - 1, own, own + 1) if own != NONE else (NONE, 0, 2 * KEPT - 1)
            if any(self.layer[item] not in near for node in nodes for item in node.operands):
                raise _Unlike
            if own in (BEFORE, COPIED):
                self._check_class(key, nodes)
        if not found[BEFORE] == found[COPIED] == found[AFTER]:
            raise _Unlike

    def _check_class(self, key: int, nodes: Iterable[ClassNode]) -> None:
        graph, other = self.graph, self.following(key)
        moved = {
            node._replace(operands=tuple(map(self._following_or_same, node.operands)))
            for node in nodes
        }
        alike = (
            self.layer[other] == self.layer[key] + 1
            and moved == set(graph.nodes.get(other, ()))
            and graph.splats.get(key) == graph.splats.get(other)
            and len(graph.leaves.get(key, ())) == len(graph.leaves.get(other, ()))
        )
        if not alike:
            raise _Unlike

    def _following_or_same(self, key: int) -> int:
        return key if self.layer[key] == NONE else self.following(key)

    def _check_reach(self, rules: Sequence[Rule]) -> None:
        """No left side could look for an e-node further away than in a neighbour."""
        named: dict[str, list[int]] = defaultdict(list)
        for key, nodes in self.graph.nodes.items():
            if self.layer[key] == COPIED:
                for name in {node.name for node in nodes}:
                    named[name].append(key)
        for rule in rules:
            for key in named[rule.left_pattern.name]:
                self._check_match(rule.left_pattern, key)

    def _check_match(self, pattern: Call, key: int) -> None:
        if self.layer[key] not in NEAR:
            raise _Unlike
        inner = [(at, item) for at, item in enumerate(pattern.operands) if isinstance(item, Call)]
        if not inner:
            return
        for node in self.graph.nodes.get(key, ()):
            if node.name == pattern.name and len(node.operands) == len(pattern.operands):
                for at, item in inner:
                    self._check_match(item, node.operands[at])


@dataclass(frozen=True)
class _Row:
    """The names of one class in the copied layer, in all copies of it, and in the one after."""

    names: tuple[int, ...]

    def at(self, distance: int) -> Sequence[int]:
        """For each copy, the name in the layer before it, in itself, or in the layer after."""
        return self.names[1 + distance : len(self.names) - 1 + distance]


class _LayerCopies:
    """The classes of the deduplicated program, and copies of those of one layer, under the names of
    the whole one.
    """

    def __init__(self, short: Deduplicated, graph: SaturatedGraph, alike: _Alike) -> None:
        self.short, self.graph, self.alike = short, graph, alike
        self.whole, self.layer = short.whole, alike.layer
        self.copies = len(short.left_out)
        keys = list(graph.nodes) + [key for key in graph.leaves if key not in graph.nodes]
        self.names = {key: self._name(key) for key in keys}
        self.rows: dict[int, _Row] = {}
        for key in keys:
            if self.layer[key] == COPIED:
                self._enter_row(key)
        for key in keys:
            if self.layer[key] == BEFORE:
                self.rows[key] = self.rows[alike.following(key)]

    def _name(self, key: int) -> int:
        """A class's name in the whole program."""
        if key < len(self.short.original):
            return self.short.original[key]
        return self.whole.name(self.short.facts.handle_types[key])

    def _enter_row(self, key: int) -> None:
        """Names the copies of a class; the row is found under its likes in all three layers."""
        place = self.short.place.get(key)
        if place is None:
            type = self.short.facts.handle_types[key]
            copies = [self.whole.name(type) for _ in range(self.copies)]
        else:
            values = self.short.layers.orbits[place[0]]
            copies = [values[layer] for layer in self.short.left_out]
        after = self.alike.following(key)
        row = _Row((self.names[key], *copies, self.names[after]))
        self.rows[key] = self.rows[after] = row

    def graph_of_all(self, trail: Iterable[Application], exact: bool) -> SaturatedGraph:
        """The saturated graph of the whole program."""
        graph = self.graph
        nodes: dict[int, list[ClassNode]] = {}
        for key, found in graph.nodes.items():
            nodes[self.names[key]] = [self._across_gap(key, node) for node in found]
            if self.layer[key] == COPIED:
                copied = zip(*map(self._copied, found), strict=True)
                nodes.update(zip(self.rows[key].at(0), map(list, copied), strict=True))
        acted = Counter(item.rule for item in trail if self.layer[item.root] == COPIED)
        fired = Counter(item.rule for item in trail)
        for rule, count in acted.items():
            fired[rule] += self.copies * count
        class_of = self._class_of()
        return SaturatedGraph(
            self.whole,
            nodes,
            self._leaves(),
            class_of,
            self._splats(),
            limits=(),
            iterations=graph.iterations,
            fired=fired + pairs_commuted(nodes, exact),
            locations=self._locations(class_of),
            layer_copies=self.copies,
        )

    def _across_gap(self, key: int, node: ClassNode) -> ClassNode:
        """An e-node that stays, under the names of the whole program."""
        operands = tuple([self._beside_gap(self.layer[key], item) for item in node.operands])
        return node._replace(operands=operands)

    def _beside_gap(self, own: int, key: int) -> int:
        """What a class is called from a layer that stays: across the gap it is a copy now."""
        if own == COPIED and self.layer[key] == AFTER:
            return self.rows[key].at(0)[0]
        if own == AFTER and self.layer[key] == COPIED:
            return self.rows[key].at(0)[-1]
        return self.names[key]

    def _copied(self, node: ClassNode) -> list[ClassNode]:
        """An e-node of the copied layer in each copy."""
        columns = [self._in_copies(item) for item in node.operands]
        read = zip(*columns, strict=True) if columns else repeat((), self.copies)
        return [ClassNode(node.name, node.attributes, node.type, operands) for operands in read]

    def _in_copies(self, key: int) -> Iterable[int]:
        """The class that each copy reads where the copied layer reads this one."""
        layer = self.layer[key]
        if layer == NONE:
            return repeat(self.names[key], self.copies)
        return self.rows[key].at(layer - COPIED)

    def _class_of(self) -> dict[int, int]:
        """The classes of the program's values, and of those that classes are named by."""
        found = {name: name for name in self.names.values()}
        for handle, original in enumerate(self.short.original):
            key = self.graph.class_of[handle]
            found[original] = self._beside_gap(self.layer[handle], key)
            if self.layer[handle] == COPIED:
                found.update(zip(self._originals(handle), self._in_copies(key), strict=True))
        for row in self.rows.values():
            found.update((name, name) for name in row.names)
        return found

    def _originals(self, handle: int) -> Sequence[int]:
        """The values that take a value's place in the layers that are left out."""
        orbit = self.short.layers.orbits[self.short.place[handle][0]]
        left_out = self.short.left_out
        return orbit[left_out.start : left_out.stop]

    def _leaves(self) -> dict[int, list[int]]:
        found = {self.names[key]: numbers for key, numbers in self.graph.leaves.items()}
        for key, numbers in self.graph.leaves.items():
            if self.layer[key] == COPIED:
                alike = zip(*map(self._leaf_in_copies, numbers), strict=True)
                found.update(zip(self.rows[key].at(0), map(list, alike), strict=True))
        return found

    def _leaf_in_copies(self, number: int) -> list[int]:
        """The number of the leaf that takes a leaf's place in each copy."""
        leaves, definitions = self.whole.leaves, self.whole.definitions
        handle = self.short.facts.handles[leaves.things[number]]
        if self.layer[handle] != COPIED:
            return [number] * self.copies
        return [leaves(definitions[item]) for item in self._originals(handle)]

    def _splats(self) -> dict[int, int]:
        found = {self.names[key]: number for key, number in self.graph.splats.items()}
        for key, number in self.graph.splats.items():
            if self.layer[key] == COPIED:
                found.update((name, number) for name in self.rows[key].at(0))
        return found

    def _locations(self, class_of: dict[int, int]) -> dict[int, Any]:
        """Where classes stand in the program; what a rule made stands where its root does."""
        short, whole = self.short, self.whole
        found: dict[int, Any] = {}
        for handle in sorted(whole.locations):
            found.setdefault(class_of[handle], whole.locations[handle])
        homes: dict[int, int] = {}
        for handle, location in short.facts.locations.items():
            if handle < len(short.original) and self.layer[handle] in (NONE, COPIED):
                homes.setdefault(id(location), handle)
        for key, location in self.graph.locations.items():
            found.setdefault(self.names[key], location)
            home = homes.get(id(location))
            if self.layer[key] != COPIED:
                continue
            copies = (
                [whole.locations[item] for item in self._originals(home)]
                if home is not None and self.layer[home] == COPIED
                else repeat(location, self.copies)
            )
            for name, place in zip(self.rows[key].at(0), copies, strict=True):
                found.setdefault(name, place)
        return found
