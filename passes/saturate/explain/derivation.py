"""Why a kernel computes what the program says: the rules between the program's operations and it.

In: a `SaturateTrace`. Out: for a chosen kernel the `Step`s that made its body out of the program's
operations, in the order they were taken.

Handles of one e-class are joined by what made them equal: an application of a rule, the
decomposition of a composite, or equal operands (congruence). A step is on the way from a value that
the program names to the e-node that the kernel holds; what a step's left side matched is explained
in turn, by earlier steps only.
"""

from collections import defaultdict, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from mgn.dialects.mgn.operation import OPERATIONS
from mgn.passes.saturate.candidates.candidates import Candidate
from mgn.passes.saturate.egraph.engine import Application, ClassNode
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.encoding.facts import Leaf, NodeFact
from mgn.passes.saturate.explain.trace import Place, SaturateTrace
from mgn.passes.saturate.rules.patterns import Call, Number, Pattern, Variable
from mgn.passes.saturate.rules.rule import Rule

Key = tuple[str, int, int, tuple[int, ...]]
GIVEN, CONGRUENT = -1, -2
"""What joins two handles, where it is no application: a decomposition, or equal operands."""


@dataclass(frozen=True)
class Step:
    """One rule at one place: what its variables were, and where the value stands in the program."""

    rule: Rule
    bindings: tuple[tuple[str, str], ...]
    place: Place | None


class Derivations:
    """The ways between the handles of a saturated graph."""

    def __init__(self, trace: SaturateTrace) -> None:
        assert trace.saturated is not None and trace.view is not None
        self.trace = trace
        self.view: View = trace.view
        self.graph = trace.saturated
        self.class_of = self.graph.class_of
        self.facts: dict[int, NodeFact] = {}
        self.leaf_handles: set[int] = set()
        self.equal: dict[Key, list[int]] = defaultdict(list)
        self.made_by: dict[int, int] = {}
        self.edges: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self.program_value: dict[int, int] = {}
        self._join()

    def steps_of(self, candidate: Candidate) -> list[Step]:
        """The steps behind a kernel, the earliest first."""
        search = _Search(self)
        search.kernel(candidate)
        return [self._step(self.trace.applications[number]) for number in sorted(search.taken)]

    def describe(self, key: int) -> str:
        """A class in a word: an input's name, a constant's value, or what computes it and where."""
        leaf = self.view.classes[key].leaf if key in self.view.classes else None
        if leaf is not None and leaf.kind == "constant":
            number = self.graph.splats.get(key)
            return "constant" if number is None else f"{self.graph.facts.splat_value(number):g}"
        if leaf is not None:
            name = self.trace.names.get(self.program_value.get(key, key))
            return name or str(leaf.key)
        operation = self.graph.nodes[key][0].name if self.graph.nodes.get(key) else "value"
        handle = self.program_value.get(key)
        for source in self.trace.operations if handle is not None else ():
            if handle in source.results:
                line = "" if source.place is None else f" of line {source.place.line}"
                return f"{source.name}{line}"
        return operation

    def key_of(self, node: NodeFact | ClassNode, operands: Collection[int]) -> Key:
        """What e-nodes have in common that are one up to commutation; operands are classes."""
        ordered = sorted(operands) if OPERATIONS[node.name].commutative else operands
        return node.name, node.attributes, node.type, tuple(ordered)

    def _join(self) -> None:
        for thing, handle in self.graph.facts.handles.items():
            if isinstance(thing, Leaf):
                self.leaf_handles.add(handle)
                continue
            assert isinstance(thing, NodeFact)
            self.facts[handle] = thing
            key = self.key_of(thing, [self.class_of[item] for item in thing.operands])
            if self.equal[key]:
                self._edge(self.equal[key][0], handle, CONGRUENT)
            self.equal[key].append(handle)
        for left, right in self.trace.given_unions:
            self._edge(left, right, GIVEN)
        for number, item in enumerate(self.trace.applications):
            self._edge(item.root, item.result, number)
            for handle in range(item.first, item.end):
                self.made_by.setdefault(handle, number)
        for source in self.trace.operations:
            for handle in source.results:
                self.program_value.setdefault(self.class_of[handle], handle)
        for handle in self.trace.names:
            self.program_value[self.class_of[handle]] = handle

    def _edge(self, left: int, right: int, label: int) -> None:
        self.edges[left].append((right, label))
        self.edges[right].append((left, label))

    def _step(self, item: Application) -> Step:
        rule = self.trace.rules[item.rule]
        bound = zip(rule.bound, item.row[1:], strict=False)
        bindings = tuple((name, self.describe(self.class_of[handle])) for name, handle in bound)
        root = self.program_value.get(self.class_of[item.root])
        places = [s.place for s in self.trace.operations if root in s.results and s.place]
        return Step(rule, bindings, places[0] if places else None)


class _Search:
    """Collects the applications behind one kernel."""

    def __init__(self, ways: Derivations) -> None:
        self.ways = ways
        self.taken: set[int] = set()

    def kernel(self, candidate: Candidate) -> None:
        ways = self.ways
        body = {name: (number, operands) for name, number, operands in candidate.body}
        pending = [(key, ways.program_value.get(key)) for key in candidate.results]
        seen: set[int] = set()
        while pending:
            key, value = pending.pop()
            if key in seen:
                continue
            seen.add(key)
            if key not in body:
                if value is not None:
                    self.path(value, ways.leaf_handles, len(ways.trace.applications))
                continue
            number, operands = body[key]
            fact = self._fact(key, number, operands, value)
            if fact is None:
                pending.extend((item, None) for item in operands if item in body)
            else:
                pending.extend(
                    (ways.class_of[item], item)
                    for item in ways.facts[fact].operands
                    if ways.class_of[item] in body or ways.class_of[item] in ways.graph.leaves
                )

    def _fact(
        self, key: int, number: int, operands: tuple[int, ...], value: int | None
    ) -> int | None:
        """The handle of a body's e-node, with all that led to it from a value of the program."""
        ways = self.ways
        signature = ways.view.signatures[number]
        facts = ways.graph.facts
        node = ClassNode(
            signature.name, facts.properties(signature.properties), facts.types(signature.type), ()
        )
        targets = ways.equal.get(ways.key_of(node, operands), []) or self._alike(key, node.name)
        if not targets:
            return None
        if value is not None:
            found = self.path(value, set(targets), len(ways.trace.applications))
            if found is not None:
                return found
        made = ways.made_by.get(targets[0])
        if made is not None:
            self.application(made)
        return targets[0]

    def _alike(self, key: int, operation: str) -> list[int]:
        """The facts of a class's e-node of this operation, whose operand an arrangement copies."""
        for node in self.ways.graph.nodes.get(key, ()):
            if node.name == operation:
                return self.ways.equal[self.ways.key_of(node, node.operands)]
        return []

    def application(self, number: int) -> None:
        """Takes a step, after those that its left side rests on."""
        if number in self.taken:
            return
        self.taken.add(number)
        item = self.ways.trace.applications[number]
        rule = self.ways.trace.rules[item.rule]
        self.left_side(rule.left_pattern, item.root, number)

    def left_side(self, call: Call, value: int, limit: int) -> None:
        ways = self.ways
        for node in ways.graph.nodes.get(ways.class_of[value], ()):
            if not self._fits(call, node):
                continue
            fact = self.path(value, set(ways.equal[ways.key_of(node, node.operands)]), limit)
            if fact is None:
                continue
            by_class = {ways.class_of[item]: item for item in ways.facts[fact].operands}
            for pattern, key in zip(call.operands, node.operands, strict=True):
                if isinstance(pattern, Call):
                    self.left_side(pattern, by_class[key], limit)
            return

    def _fits(self, call: Call, node: ClassNode) -> bool:
        if node.name != call.name or len(node.operands) != len(call.operands):
            return False
        return all(
            self._operand_fits(pattern, key)
            for pattern, key in zip(call.operands, node.operands, strict=True)
        )

    def _operand_fits(self, pattern: Pattern, key: int) -> bool:
        graph = self.ways.graph
        if isinstance(pattern, Number):
            return graph.splats.get(key) == graph.facts.splat_of_literal(pattern.value)
        if isinstance(pattern, Variable):
            return True
        assert isinstance(pattern, Call)
        return any(self._fits(pattern, node) for node in graph.nodes.get(key, ()))

    def path(self, start: int, targets: Collection[int], limit: int) -> int | None:
        """The nearest target by steps before `limit`, which are taken. None where there is none."""
        came: dict[int, tuple[int, int] | None] = {start: None}
        pending = deque([start])
        while pending:
            handle = pending.popleft()
            if handle in targets:
                for left, right, label in _edges_back(came, handle):
                    self._take(left, right, label, limit)
                return handle
            for other, label in self.ways.edges[handle]:
                if other not in came and label < limit:
                    came[other] = (handle, label)
                    pending.append(other)
        return None

    def _take(self, left: int, right: int, label: int, limit: int) -> None:
        if label >= 0:
            self.application(label)
        elif label == CONGRUENT:
            facts, class_of = self.ways.facts, self.ways.class_of
            by_class = {class_of[item]: item for item in facts[right].operands}
            for operand in facts[left].operands:
                other = by_class[class_of[operand]]
                if other != operand:
                    self.path(operand, {other}, limit)


def _edges_back(
    came: dict[int, tuple[int, int] | None], handle: int
) -> Iterator[tuple[int, int, int]]:
    """The edges of a search from its end to its start."""
    step = came[handle]
    while step is not None:
        yield step[0], handle, step[1]
        handle = step[0]
        step = came[handle]
