"""The saturated e-graph as the choice of kernels sees it: acyclic, without forms that nobody could
want.

In: a `SaturatedGraph` and the classes the graph returns. Out: a `View`: classes in topological
order, each with its type, its e-nodes (as numbers of `Signature`s with operand classes), and
whether it already lies in memory.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.attention_bodies import TOTALS
from mgn.dialects.fusion.forms import HELD_WHOLE, WHOLE_COMPOSITES, multiplied_operands
from mgn.dialects.mgn.operation import OPERATIONS, Kind, OperationSpec
from mgn.dialects.shapes import element_count
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.engine import ClassNode, SaturatedGraph
from mgn.passes.saturate.egraph.roundings import rounded_classes
from mgn.passes.saturate.encoding.facts import Facts, Leaf, Properties, splat_number

HEAVY_KINDS = {
    Kind.CONTRACTION: KernelKind.CONTRACTION,
    Kind.SCAN: KernelKind.SCAN,
    Kind.SCATTER: KernelKind.SCATTER,
    Kind.ORDER: KernelKind.ORDER,
}
STEPS = {**dict.fromkeys(WHOLE_COMPOSITES, 64), TOTALS: 1}
"""What a composite counts where a way round is cut: more than its parts, which so stay a choice;
less where an attention's kernel gives it besides.
"""

FAR = 1 << 60
"""The depth of what no e-node is known to compute yet."""

HEAVY_COMPOSITES = {name: KernelKind(kind) for kind, names in HELD_WHOLE.items() for name in names}


@dataclass(frozen=True)
class Signature:
    """An e-node without its operands' identity: all that decides legality and price. `rounded` are
    the places of what it multiplies that is known to be rounded to tf32, wherever it comes from.
    """

    name: str
    properties: Properties
    type: TensorType
    operand_types: tuple[TensorType, ...]
    rounded: tuple[int, ...] = ()

    @cached_property
    def fingerprint(self) -> int:
        """The hash, worked out once."""
        return hash((self.name, self.properties, self.type, self.operand_types, self.rounded))

    def __hash__(self) -> int:
        return self.fingerprint

    @cached_property
    def spec(self) -> OperationSpec:
        return OPERATIONS[self.name]

    @cached_property
    def values(self) -> dict[str, Any]:
        stored = dict(self.properties)
        return {
            item.name: item.kind.decode(stored[item.name]) if item.name in stored else None
            for item in self.spec.attributes
        }

    @cached_property
    def property_dict(self) -> dict[str, Attribute]:
        return dict(self.properties)

    @cached_property
    def kind(self) -> Kind:
        return self.spec.kind

    @cached_property
    def heavy(self) -> KernelKind | None:
        """The kind of the kernels that this one operation decides; a kernel holds one of them."""
        return HEAVY_KINDS.get(self.kind) or HEAVY_COMPOSITES.get(self.name)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.type.get_shape())

    @cached_property
    def size(self) -> int:
        return element_count(self.shape)

    @cached_property
    def operand_shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(type.get_shape()) for type in self.operand_types)

    @cached_property
    def operand_sizes(self) -> tuple[int, ...]:
        return tuple(map(element_count, self.operand_shapes))

    @cached_property
    def figures(self) -> dict[int, Any]:
        """What prices keep about it, for each device."""
        return {}

    @cached_property
    def schedules(self) -> dict[int, tuple[Any, dict[Any, Any]]]:
        """What schedules were found for it, for each device, which is kept beside them."""
        return {}

    @cached_property
    def widest(self) -> int:
        """The bytes of the widest element that it reads or computes."""
        return max(element_of(type).bytes for type in (self.type, *self.operand_types))

    @cached_property
    def element(self) -> str:
        return element_of(self.type).name

    @cached_property
    def result_bytes(self) -> int:
        return self.size * element_of(self.type).bytes


@dataclass(slots=True)
class Member:
    """An e-node of a class: the number of its signature, and operand classes."""

    signature: int
    operands: tuple[int, ...]


@dataclass(slots=True)
class ValueClass:
    """An e-class. `leaf` is set where it lies in memory or, when `inline`, is a constant bodies
    hold themselves; `prepared` where it is computed when parameters are set, not in every run.
    `gathered` says of what is prepared that runs take rows of it where it lies, or of what it is
    made of.
    """

    key: int
    type: TensorType
    members: list[Member]
    leaf: Leaf | None = None
    inline: bool = False
    users: int = 0
    is_output: bool = False
    prepared: bool = False
    gathered: bool = False

    @property
    def in_memory(self) -> bool:
        return self.leaf is not None and not self.inline


@dataclass
class View:
    """All classes that the outputs can need, operands before users.

    Where it `prepares`, values that parameters and constants alone decide are computed once; of
    their forms only those remain that need nothing else. The last `left` outputs are what states
    are left with; `found` has, by their classes, those of what was found there, where it is read.
    `spreads` allows kernels whose rounding errors neighbouring results share. `values` are the
    classes of the program's values, in their order.
    """

    classes: dict[int, ValueClass]
    outputs: list[int]
    signatures: list[Signature]
    locations: dict[int, Any] = field(default_factory=dict[int, Any])
    prepares: bool = False
    left: int = 0
    found: dict[int, int | None] = field(default_factory=dict[int, int | None])
    spreads: bool = False
    values: Sequence[int] = ()

    def copy(self) -> "View":
        """The same classes as they are now, whatever is entered later; signatures are shared."""
        classes = {
            key: replace(value, members=list(value.members)) for key, value in self.classes.items()
        }
        return replace(self, classes=classes)

    def note_states(self, places: Sequence[int | None]) -> None:
        """Says of the last outputs that they are left in states, which the graph found in these of
        its arguments: None for one that it did not look at.
        """
        self.left = len(places)
        inputs = {
            value.leaf.key: key
            for key, value in self.classes.items()
            if value.leaf is not None and value.leaf.kind == "input"
        }
        for key, place in zip(self.outputs[len(self.outputs) - self.left :], places, strict=True):
            self.found[key] = inputs.get(place)


def make_view(
    graph: SaturatedGraph,
    outputs: Iterable[int],
    whole: Callable[[Signature], bool] = lambda signature: True,
    prepare: bool = False,
) -> View:
    """Reads the classes that matter out of a saturated e-graph.

    `whole` says which of the composites that kernels know they may compute as they stand.
    """
    roots = [graph.class_of[output] for output in outputs]
    held = _Held(graph.facts, whole)
    members = {
        key: [] if key in graph.leaves else _useful(key, nodes, held)
        for key, nodes in graph.nodes.items()
    }
    if not all(nodes or key in graph.leaves for key, nodes in members.items()):
        _keep_computable(members, graph.leaves)
    order = _acyclic_order(members, roots, graph.leaves)
    facts = graph.facts
    rounded = rounded_classes(
        graph.nodes, facts.handle_types, lambda node, key: _signature(facts, node, key).values
    )
    signatures: list[Signature] = []
    numbers: dict[tuple[str, int, tuple[int, ...], tuple[int, ...]], int] = {}
    classes: dict[int, ValueClass] = {}
    for key in order:
        value = ValueClass(key, facts.handle_types[key], [])
        if key in graph.leaves:
            leaf: Leaf = facts.leaves.things[graph.leaves[key][0]]
            value.leaf = leaf
            value.inline = leaf.kind == "constant" and splat_number(leaf.key) is not None
        for node in members.get(key, ()):
            types = tuple(facts.types(facts.handle_types[operand]) for operand in node.operands)
            count = multiplied_operands(node.name) if rounded else 0
            places = tuple(n for n, item in enumerate(node.operands[:count]) if item in rounded)
            shape = (node.name, node.attributes, types, places)
            number = numbers.get(shape)
            if number is None:
                number = numbers[shape] = len(signatures)
                signatures.append(replace(_signature(facts, node, key), rounded=places))
            value.members.append(Member(number, node.operands))
        classes[key] = value
        if prepare:
            _note_prepared(value, classes)
    for value in classes.values():
        for operand in {item for member in value.members for item in member.operands}:
            classes[operand].users += 1
    _note_gathered(classes, signatures)
    returned = [_written_class(classes, root, signatures, graph) for root in roots]
    for key in returned:
        classes[key].is_output = True
    return View(classes, returned, signatures, graph.locations, prepare)


def _note_prepared(value: ValueClass, classes: Mapping[int, ValueClass]) -> None:
    """Keeps, where there are any, only the e-nodes that need nothing but prepared values."""
    if value.leaf is not None:
        value.prepared = value.leaf.prepares
        return
    members = [
        member
        for member in value.members
        if all(classes[operand].prepared for operand in member.operands)
    ]
    if members:
        value.members, value.prepared = members, True


def _note_gathered(classes: Mapping[int, ValueClass], signatures: Sequence[Signature]) -> None:
    """Notes of what is prepared whether a run gathers from it, or from what it is made of."""
    for value in classes.values():
        for member in value.members:
            if signatures[member.signature].name == "gather" and not value.prepared:
                table = classes[member.operands[0]]
                table.gathered = table.prepared
    for value in classes.values():
        operands = (item for member in value.members for item in member.operands)
        value.gathered |= value.prepared and any(classes[item].gathered for item in operands)


def _written_class(
    classes: dict[int, ValueClass],
    root: int,
    signatures: list[Signature],
    graph: SaturatedGraph,
) -> int:
    """The class that a kernel writes for an output: for a leaf, a copy of it."""
    value = classes[root]
    if value.leaf is None:
        return root
    key = len(graph.facts.handle_types) + root
    if key not in classes:
        signatures.append(Signature("identity", (), value.type, (value.type,)))
        copy = Member(len(signatures) - 1, (root,))
        classes[key] = ValueClass(key, value.type, [copy], prepared=value.prepared)
        value.users += 1
        if root in graph.locations:
            graph.locations[key] = graph.locations[root]
    return key


class _Held:
    """Which e-nodes kernels can hold: looked at once for each operation and its operands' types."""

    def __init__(self, facts: Facts, whole: Callable[[Signature], bool]) -> None:
        self.facts, self.whole = facts, whole
        self.names: dict[str, bool] = {}
        self.known: dict[tuple[str, int, tuple[int, ...]], bool] = {}

    def holds(self, node: ClassNode, key: int) -> bool:
        """Whether a kernel may compute an e-node of a class as it stands."""
        if node.name in WHOLE_COMPOSITES:
            return self._holds_whole(node, key)
        known = self.names.get(node.name)
        if known is None:
            spec = OPERATIONS[node.name]
            known = self.names[node.name] = spec.is_core or spec.kind is Kind.ELEMENTWISE
        return known

    def _holds_whole(self, node: ClassNode, key: int) -> bool:
        numbers = tuple(self.facts.types(self.facts.handle_types[item]) for item in node.operands)
        shape = node.name, node.attributes, numbers
        known = self.known.get(shape)
        if known is None:
            known = self.known[shape] = self.whole(_signature(self.facts, node, key))
        return known


def _useful(key: int, nodes: Sequence[ClassNode], held: _Held) -> list[ClassNode]:
    """The e-nodes worth choosing: one of each commuted pair, none that kernels cannot hold."""
    kept: dict[Any, ClassNode] = {}
    for node in nodes:
        if key in node.operands or not held.holds(node, key):
            continue
        operands = node.operands
        if len(operands) > 1 and OPERATIONS[node.name].commutative:
            operands = tuple(sorted(operands))
        kept.setdefault((node.name, node.attributes, operands), node)
    return _reading_least(held.facts, list(kept.values()))


def _reading_least(facts: Facts, nodes: list[ClassNode]) -> list[ClassNode]:
    """E-nodes without the attentions that read more than another one: a mask where that computes
    it, or keys repeated for each head.
    """
    reads: dict[ClassNode, tuple[int, int]] = {}
    for node in nodes:
        if node.name == "attention":
            width = facts.handle_types[node.operands[1]].get_shape()[-1]
            reads[node] = (len(node.operands), width)
    if not reads:
        return nodes
    least = min(reads.values())
    return [node for node in nodes if reads.get(node, least) == least]


def _signature(facts: Facts, node: ClassNode, key: int) -> Signature:
    operands = tuple(facts.handle_types[item] for item in node.operands)
    properties = facts.properties.things[node.attributes]
    return Signature(node.name, properties, facts.handle_types[key], operands)


def _keep_computable(members: dict[int, list[ClassNode]], leaves: Container[int]) -> None:
    """Removes e-nodes that need what nothing computes: a composite that rules made, of which no
    kernel is known, and the movement that leads from it and back to it.
    """
    users: dict[int, list[int]] = {}
    for key, nodes in members.items():
        for node in nodes:
            for operand in node.operands:
                users.setdefault(operand, []).append(key)
    computable = {operand for operand in users if operand not in members or operand in leaves}
    pending = [*computable, *(key for key in members if key in leaves)]
    pending += [key for key, nodes in members.items() if any(not node.operands for node in nodes)]
    computable.update(pending)
    while pending:
        for key in users.get(pending.pop(), ()):
            if key not in computable and any(
                computable.issuperset(node.operands) for node in members[key]
            ):
                computable.add(key)
                pending.append(key)
    for key, nodes in members.items():
        members[key] = [node for node in nodes if computable.issuperset(node.operands)]


def _acyclic_order(
    members: dict[int, list[ClassNode]], roots: Sequence[int], leaves: Container[int]
) -> list[int]:
    """Classes reachable from the roots, operands first, after removing e-nodes that lead back to
    their own class.

    Inside a strongly connected component an e-node stays only if its operands there have a smaller
    depth, where the depth of a class is that of its shallowest e-node: each class keeps at least
    that one. A class without a depth is computed from itself alone, as two values that are each
    only the other's movement.
    """
    component = _components(members, roots)
    sizes: dict[int, int] = {}
    for number in component.values():
        sizes[number] = sizes.get(number, 0) + 1
    if any(size > 1 for size in sizes.values()):
        depth = _depths(members, component)
        if len(depth) < len(component):
            _keep_computable(members, leaves)
            return _acyclic_order(members, roots, leaves)
        for key, nodes in members.items():
            if key in component and sizes[component[key]] > 1:
                members[key] = [
                    node
                    for node in nodes
                    if all(
                        component[operand] != component[key] or depth[operand] < depth[key]
                        for operand in node.operands
                    )
                ]
    order: dict[int, None] = {}
    pending = [(root, False) for root in reversed(roots)]
    while pending:
        key, done = pending.pop()
        if done:
            order[key] = None
        elif key not in order:
            pending.append((key, True))
            operands = {item: None for node in members.get(key, ()) for item in node.operands}
            pending.extend((item, False) for item in reversed(operands) if item not in order)
    return list(order)


def _depths(members: dict[int, list[ClassNode]], component: dict[int, int]) -> dict[int, int]:
    """The depth of each class that anything computes; components are in order, operands before
    users.
    """
    depth = {key: 0 for key in component if not members.get(key)}
    groups: dict[int, list[int]] = {}
    for key, number in component.items():
        groups.setdefault(number, []).append(key)
    for keys in groups.values():
        changed = True
        while changed:
            changed = False
            for key in keys:
                before = best = depth.get(key, FAR)
                for node in members.get(key, ()):
                    below = max([depth.get(item, FAR) for item in node.operands], default=0)
                    below += STEPS.get(node.name, 1)
                    if below < best:
                        best = below
                if best < before:
                    depth[key] = best
                    changed = len(keys) > 1
    return depth


def _components(members: dict[int, list[ClassNode]], roots: Sequence[int]) -> dict[int, int]:
    """Tarjan's strongly connected components, without recursion: class to component number."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    component: dict[int, int] = {}
    stack: list[int] = []
    for root in roots:
        if root in index:
            continue
        work: list[tuple[int, list[int]]] = [(root, _operands(members, root))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            key, rest = work[-1]
            if rest:
                item = rest.pop()
                if item not in index:
                    index[item] = low[item] = len(index)
                    stack.append(item)
                    work.append((item, _operands(members, item)))
                elif item not in component:
                    low[key] = min(low[key], index[item])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[key])
            if low[key] == index[key]:
                while True:
                    item = stack.pop()
                    component[item] = key
                    if item == key:
                        break
    return component


def _operands(members: dict[int, list[ClassNode]], key: int) -> list[int]:
    return [item for node in members.get(key, ()) for item in node.operands]
