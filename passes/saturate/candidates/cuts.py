"""Priority cuts: for each class a few best ways to compute it from others, merged from its
operands' cuts.

In: a `View`, a device. Out: for each class a `CutSet` of `Cone`s, over the values near it.

A *cone* is a body (e-nodes in dependency order, the class itself last) and its leaves, values read
from memory. The cones of a class are those of its e-nodes, whose operands are each either a leaf or
computed by one of their own cones (A. Mishchenko, S. Cho, S. Chatterjee, R. Brayton, "Combinational
and sequential mapping with priority cuts", ICCAD 2007). Cones are kept by price, a few for each
kernel kind; illegal ones are dropped as they appear.

A cut set is written over *local* names 0, 1, 2 … of the classes it mentions, and kept by the shape
of what it was made from. So the thirty equal layers of a network are worked out once.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.attention_bodies import TOTALS
from mgn.dialects.fusion.forms import MOVED
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.passes.saturate.candidates.broadcasts import costs_a_launch, repeats_of
from mgn.passes.saturate.candidates.cones import Cone, Ranking, Traits
from mgn.passes.saturate.candidates.limits import DEARER, TIME, CutLimits
from mgn.passes.saturate.candidates.needless_reads import needless_reads, note_besides
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.candidates.readers import readers_of
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.candidates.rounding_order import keeps_bits
from mgn.passes.saturate.egraph.view import Signature, ValueClass, View
from mgn.passes.saturate.prices.forms import BodyNode, Way
from mgn.passes.saturate.prices.matrix_price import shows_rounding
from mgn.passes.saturate.prices.operation_figures import operation_weight, widens_half
from mgn.passes.saturate.prices.prices import SCHEDULED, price_per_run

VIEWS = frozenset({"reshape", "broadcast_to", "slice"})
"""Movement that any kernel reads through at no cost."""

MOVEMENT = frozenset({"reshape", "slice", "transpose"})
"""Movement by which a value has each element once at most."""

GOING_ONCE = (KernelKind.SCAN, KernelKind.SCATTER, KernelKind.ORDER)
"""Kinds of kernels with a heavy operation that read its operands about once."""

UNPRICED = -1.0
"""The price of a cone that is only known to be legal."""

DEAR = 4.0
"""Weight of an operation from which on its result is better read than computed again."""


@dataclass
class CutSet:
    """The cones of a class, over local names: 0 is the class, `traits[i]` describes name i. `lasts`
    is as those who read the class are to see it.
    """

    number: int
    traits: list[Traits]
    cones: list[Cone] = field(default_factory=list[Cone])
    lasts: bool = False


@dataclass(slots=True)
class PlacedCuts:
    """A cut set where it stands: `classes[i]` is the class of local name i."""

    cuts: CutSet
    classes: tuple[int, ...]


class CutBuilder:
    """Computes cut sets bottom-up, each distinct one once."""

    def __init__(
        self, view: View, device: Device, limits: CutLimits, priced: PricedBodies | None = None
    ) -> None:
        self.view = view
        self.device = device
        self.limits = limits
        self.priced = priced or PricedBodies(view.signatures, device)
        self.ranking = Ranking(device)
        self.placed: dict[int, PlacedCuts] = {}
        self.memo: dict[object, tuple[CutSet, tuple[int, ...]]] = table(limits.memoise)
        self.contents: dict[object, CutSet] = table(limits.memoise)
        self.traits: dict[int, Traits] = {}
        self.traits_of: dict[int, int] = {}
        self.trait_numbers: dict[Traits, int] = {}
        self.known_traits: dict[tuple[object, ...], tuple[Traits, int]] = {}
        self.numbered: list[CutSet] = []
        self.readers = readers_of(view)
        self.repeats = repeats_of(view, device, self.readers)
        self.considered = 0
        self.left_out = Counter[str]()

    def build(self) -> dict[int, PlacedCuts]:
        """The cut sets of all classes, in dependency order."""
        for value in self.view.classes.values():
            self.placed[value.key] = self._class(value)
        return self.placed

    def _class(self, value: ValueClass) -> PlacedCuts:
        traits = self._traits(value)
        names: dict[int, int] = {value.key: 0}
        name_of = names.setdefault
        nodes: list[tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]] = []
        mapped: dict[int, tuple[int, tuple[int, ...]]] = {}
        for member in value.members:
            for operand in member.operands:
                if operand not in mapped:
                    placed = self.placed[operand]
                    own = tuple([name_of(item, len(names)) for item in placed.classes])
                    mapped[operand] = placed.cuts.number, own
            nodes.append((member.signature, tuple([mapped[item] for item in member.operands])))
        key = (traits, tuple(nodes))
        known = self.memo.get(key)
        if known is None:
            known = self.memo[key] = self._compute(value, nodes, list(names))
        cuts, selected = known
        if cuts.lasts:
            self._note_traits(value, replace(self.traits[value.key], lasts=True))
        classes = list(names)
        return PlacedCuts(cuts, tuple([classes[index] for index in selected]))

    def _compute(
        self,
        value: ValueClass,
        nodes: Sequence[tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]],
        classes: Sequence[int],
    ) -> tuple[CutSet, tuple[int, ...]]:
        """A new cut set, and which of the names it was made over it mentions."""
        cones: list[Cone] = []
        all_traits = [self.traits[key] for key in classes]
        if value.leaf is None:
            for signature, operands in nodes:
                cones.extend(self._node_cones(signature, operands, all_traits))
            cones = self._keep(cones, all_traits)
        used = {0: 0}
        for cone in cones:
            for name, _, operands in cone.body:
                for item in (*operands, name):
                    used.setdefault(item, len(used))
        renamed = [cone.renamed(used) for cone in cones]
        described = [all_traits[name] for name in used]
        numbers = tuple([self.traits_of[classes[name]] for name in used])
        content = (numbers, tuple((cone.body, cone.leaves) for cone in renamed))
        cuts = self.contents.get(content)
        if cuts is None:
            lasts = costs_a_launch(renamed, described, self.view.signatures, self.device)
            cuts = CutSet(len(self.numbered), described, renamed, lasts)
            self.contents[content] = cuts
            self.numbered.append(cuts)
        return cuts, tuple(used)

    def _traits(self, value: ValueClass) -> int:
        """Notes a class's traits, and gives their number; types are hashed once each."""
        users = min(self.readers[value.key], 3)
        outside = users, value.is_output, value.prepared, self.repeats.get(value.key, 0.0)
        rest = value.in_memory, value.inline, *outside
        names = {self.view.signatures[member.signature].name for member in value.members}
        views = value.leaf is None and not names.isdisjoint(VIEWS)
        beside = TOTALS in names
        moves = value.leaf is None and names <= MOVEMENT
        key = (id(value.type), *rest, views, beside, moves)
        known = self.known_traits.get(key)
        if known is None:
            known = self.known_traits[key] = self._note_traits(
                value, Traits(value.type, *rest, views=views, beside=beside, moves=moves)
            )
        self.traits[value.key], self.traits_of[value.key] = known
        return known[1]

    def _note_traits(self, value: ValueClass, traits: Traits) -> tuple[Traits, int]:
        """Notes what the traits of a class are, and gives them with their number."""
        number = self.trait_numbers.setdefault(traits, len(self.trait_numbers))
        self.traits[value.key], self.traits_of[value.key] = traits, number
        return traits, number

    def _node_cones(
        self,
        signature: int,
        operands: Sequence[tuple[int, tuple[int, ...]]],
        traits: Sequence[Traits],
    ) -> list[Cone]:
        """Legal cones of one e-node, over the names of the class being computed.

        A value with one user, read elementwise or by a reduction, never lies in memory where a
        kernel can compute it together with that user (needless_reads.py). A value that its user
        broadcasts is an exception where it `lasts` (broadcasts.py); so are what a matrix unit takes
        from memory, and what is prepared where its user is not: it is there for nothing.
        """
        root = self.view.signatures[signature]
        choices = [
            self._choices(number, mapped, traits, root, self._before(root, position))
            for position, (number, mapped) in enumerate(operands)
        ]
        plain = root.kind in (Kind.ELEMENTWISE, Kind.REDUCTION)
        plain = plain and not shows_rounding(root, self.device)
        attends = root.heavy is KernelKind.ATTENTION
        if attends:
            choices[0] = _through_views(choices[0], traits)
        merges = self.limits.attention if attends else self.limits.merges
        self.left_out[TIME] += max(0, math.prod(map(len, choices)) - merges)
        merged: dict[tuple[int, ...], Cone | None] = {}
        tried = [range(len(choice)) for choice in choices]
        for places in islice(product(*tried), merges):
            combination = [choice[place] for choice, place in zip(choices, places, strict=True)]
            merged[places] = self._merge(signature, operands, combination, traits, priced=not plain)
        found = {places: cone for places, cone in merged.items() if cone is not None}
        legal = dict(sorted(found.items(), key=lambda item: bool(item[1].form.reduced)))
        if all(cone.form.reduced for cone in legal.values()):
            nothing = [None] * len(operands)
            cone = self._merge(signature, operands, nothing, traits, bounded=False)
            return [] if cone is None else [cone]
        if not plain:
            return list(legal.values())
        names = [mapped[0] for _, mapped in operands]
        replaced = set(needless_reads(merged, names, choices, traits))
        self.left_out[DEARER] += len(replaced)
        note_besides(legal, names, choices, traits)
        kept = [cone for places, cone in legal.items() if places not in replaced]
        return [self._priced(cone, traits) for cone in kept]

    def _before(self, root: Signature, position: int) -> Collection[KernelKind]:
        """The kinds of kernel that may go on in one of an operation, for one of its operands: what
        comes before a heavy operation is pointwise, or reduces a product's rows for it.
        """
        if root.heavy is None:
            return KernelKind
        if root.heavy is KernelKind.CONTRACTION and not position and not self.device.is_cpu:
            return (KernelKind.POINTWISE, KernelKind.REDUCTION)
        return (KernelKind.POINTWISE,)

    def _choices(
        self,
        number: int,
        mapped: Sequence[int],
        traits: Sequence[Traits],
        root: Signature,
        kinds: Collection[KernelKind],
    ) -> list[Cone | None]:
        """How an operand may come: None is from memory (or, for a constant, inside the body). What
        goes once over its operands reads a reshape where the value itself lies. Operands of
        attention's gradient, which are many, that are rounded for a matrix unit come so alone;
        those of a product come so first, through movement too.
        """
        operand, heavy = traits[mapped[0]], root.heavy
        if operand.in_memory or operand.inline:
            return [None]
        cones = [cone for cone in self.numbered[number].cones if cone.form.kind in kinds]
        if not cones:
            return [None]
        if operand.prepared and not traits[0].prepared:
            tiled = KernelKind.CONTRACTION not in kinds and heavy not in GOING_ONCE
            chosen = self._prepared_choices(cones, tiled)
        else:
            first = [cone for cone in cones if not cone.besides]
            if heavy is KernelKind.ATTENTION_GRADIENT:
                first = [cone for cone in first if self._shows_rounding(cone)] or first
            own = self.numbered[number].traits
            chosen = [*best_of_each_kind(first, self.limits, own), None]
            if heavy is KernelKind.CONTRACTION or root.name in MOVED:
                rounding = next((cone for cone in first if self._shows_rounding(cone)), None)
                if rounding is not None:
                    chosen = [rounding, *(cone for cone in chosen if cone is not rounding)]
            once = heavy in GOING_ONCE and any(map(self._reshapes, chosen))
            if once or (heavy is None and self._slides(cones)):
                chosen.pop()
        return [None if cone is None else cone.at(mapped) for cone in chosen]

    def _prepared_choices(self, cones: Sequence[Cone], heavy: bool) -> list[Cone | None]:
        """How a run's kernel may get what is prepared: what only views a parameter is read through,
        what is expensive, lies in several places, or is asked for by many tiles, is never computed
        again; numbers of two bytes may be read faster than their wide form. A matrix unit has to
        see that its operand is rounded, which is done on the way for nothing.
        """
        rounded = [cone for cone in cones if self._shows_rounding(cone)]
        if rounded:
            return [*rounded, None]
        best = cones[0]
        signatures = [self.view.signatures[number] for _, number, _ in best.body]
        if all(signature.name in VIEWS for signature in signatures):
            return [best]
        if all(signature.name in VIEWS or widens_half(signature) for signature in signatures):
            return [best, None]
        dear = heavy or any(
            item.name == "concat" or operation_weight(item, self.device) >= DEAR
            for item in signatures
        )
        return [None] if dear else [None, best]

    def _slides(self, cones: Sequence[Cone]) -> bool:
        """Whether a value is windows, in all of its cones, and so larger than what it is read from:
        its readers take them as they go on a CPU, where they lie side by side.
        """
        if self.limits.whole or not self.device.is_cpu:
            return False
        pointwise = [cone.body for cone in cones if cone.form.kind is KernelKind.POINTWISE]
        return bool(pointwise) and all(
            any(self.view.signatures[number].name == "windows" for _, number, _ in body)
            for body in pointwise
        )

    def _reshapes(self, cone: Cone | None) -> bool:
        """Whether a body is a reshape of what lies in memory."""
        if cone is None:
            return False
        return all(self.view.signatures[number].name == "reshape" for _, number, _ in cone.body)

    def _shows_rounding(self, cone: Cone) -> bool:
        """Whether a body rounds for the device's matrix unit what lies in memory, or views."""
        if not self.device.matrix_rates:
            return False
        signatures = [self.view.signatures[number] for _, number, _ in cone.body]
        rounding = [item for item in signatures if shows_rounding(item, self.device)]
        views = sum(signature.name in VIEWS for signature in signatures)
        return bool(rounding) and len(rounding) + views == len(signatures)

    def _merge(
        self,
        signature: int,
        operands: Sequence[tuple[int, tuple[int, ...]]],
        combination: Sequence[Cone | None],
        traits: Sequence[Traits],
        bounded: bool = True,
        priced: bool = True,
    ) -> Cone | None:
        """The cone of an e-node whose operands come so, if it is legal; its price may wait where it
        does not decide that.
        """
        names = tuple([mapped[0] for _, mapped in operands])
        nodes: dict[int, BodyNode] = {}
        leaves: dict[int, None] = {}
        in_order = True
        for cone in combination:
            if cone is not None:
                for node in cone.body:
                    in_order &= nodes.setdefault(node[0], node) == node
                leaves.update(dict.fromkeys(cone.leaves))
        if 0 in nodes:
            return None
        for name, cone in zip(names, combination, strict=True):
            if cone is None:
                leaves[name] = None
        nodes[0] = (0, signature, names)
        in_order &= nodes.keys().isdisjoint(leaves)
        ordered = list(nodes.values()) if in_order else body_order(nodes)
        if ordered is None or len(ordered) > self.limits.operations:
            return None
        if self.limits.keep_bits and not keeps_bits(ordered, self.view.signatures):
            return None
        read = leaves if in_order else leaves_of(ordered)
        real = tuple([name for name in read if not traits[name].inline])
        if bounded and len(real) > self.limits.leaves:
            return None
        self.considered += 1
        body = tuple(ordered)
        form = self.priced.form(body)
        if form is None or (form.reduced and self.device.is_cpu):
            return None
        cone = Cone(body, real, form, UNPRICED)
        if priced or form.kind in SCHEDULED:
            self._priced(cone, traits)
        return None if cone.price == math.inf else cone

    def _priced(self, cone: Cone, traits: Sequence[Traits]) -> Cone:
        """A cone with its price, which may have waited."""
        if cone.price == UNPRICED:
            types = {name: traits[name].type for name in cone.leaves}
            price = self.priced.price(cone.body, cone.form, (0,), types)
            cone.price = price_per_run(price, traits[0].prepared)
        return cone

    def _keep(self, cones: Sequence[Cone], traits: Sequence[Traits]) -> list[Cone]:
        """The best few of each kind, no two with the same leaves and body classes, and the best
        where it has its leaves to itself; the smallest; one that only rounds, by which a matrix
        unit sees that its operand is rounded; and last a few that stand besides.
        """
        kept: list[Cone] = []
        counts: dict[tuple[Way, bool], int] = {}
        dropped: dict[Way, list[Cone]] = {}
        seen: set[tuple[frozenset[int], Way]] = set()
        ranked = self.ranking.rank(cones, traits)
        for cone in sorted(ranked, key=lambda item: item.besides):
            key = (frozenset(cone.leaves), cone.form.way)
            kind = cone.form.way, cone.besides
            count = counts.get(kind, 0)
            if key in seen or count >= self._most_of(cone):
                self.left_out[TIME] += 1
                if not cone.besides:
                    dropped.setdefault(cone.form.way, []).append(cone)
                continue
            seen.add(key)
            counts[kind] = count + 1
            kept.append(cone)
        for way, others in dropped.items():
            of_way = [*(cone for cone in kept if cone.form.way == way), *others]
            best = min(of_way, key=lambda item: self.ranking.alone(item, traits))
            if not any(cone is best for cone in kept):
                kept.append(best)
        smallest = min(cones, key=lambda item: (len(item.body), item.rank), default=None)
        if smallest is not None and all(len(cone.body) > len(smallest.body) for cone in kept):
            kept.append(smallest)
        rounding = next((cone for cone in ranked if self._shows_rounding(cone)), None)
        if rounding is not None and not any(cone is rounding for cone in kept):
            kept.append(rounding)
        return sorted(kept, key=lambda cone: cone.besides)

    def _most_of(self, cone: Cone) -> int:
        """How many cones like this one are kept of a class."""
        if cone.form.kind is KernelKind.ATTENTION:
            return self.limits.attending
        return self.limits.besides if cone.besides else self.limits.cones


def _through_views(chosen: Sequence[Cone | None], traits: Sequence[Traits]) -> list[Cone | None]:
    """How attention's queries may come, first of all so that no view has to be written for them:
    a view that several of their operations read.
    """
    through = [cone is None or not any(traits[x].views for x in cone.leaves) for cone in chosen]
    first = [cone for cone, is_through in zip(chosen, through, strict=True) if is_through]
    if not any(first):
        return list(chosen)
    rest = [cone for cone, is_through in zip(chosen, through, strict=True) if not is_through]
    return [*first, *rest]


def body_order(
    nodes: Mapping[int, BodyNode], results: Sequence[int] = (0,)
) -> list[BodyNode] | None:
    """The e-nodes that results need, operands first; None where they depend on themselves."""
    ordered: list[BodyNode] = []
    state: dict[int, bool] = {}
    pending = list(reversed(results))
    while pending:
        name = pending[-1]
        if name in state:
            pending.pop()
            if not state[name]:
                state[name] = True
                ordered.append(nodes[name])
            continue
        state[name] = False
        for operand in reversed(nodes[name][2]):
            if operand in nodes:
                if operand not in state:
                    pending.append(operand)
                elif not state[operand]:
                    return None
    return ordered


def leaves_of(body: Sequence[BodyNode]) -> list[int]:
    """The operands that a body does not compute, in order of first use."""
    inside = {name for name, _, _ in body}
    return list(
        dict.fromkeys(
            operand for _, _, operands in body for operand in operands if operand not in inside
        )
    )


def best_of_each_kind(
    cones: Sequence[Cone], limits: CutLimits, traits: Sequence[Traits]
) -> list[Cone]:
    """The few of an operand's cones, best first, that its users try: a kernel of one kind is no
    substitute for one of another, as a slice of a wide product is none for the product. Of those
    that read the same but for scalars, the first is enough.
    """
    of_one_kind = len({cone.form.way for cone in cones if not cone.form.reduced}) == 1
    kept: list[Cone] = []
    counts: dict[Way, int] = {}
    seen: set[tuple[Way, frozenset[int]]] = set()
    for cone in cones:
        way = cone.form.way
        large = frozenset(name for name in cone.leaves if traits[name].type.get_shape())
        if (way, large) in seen:
            continue
        seen.add((way, large))
        counts[way] = counts.get(way, 0) + 1
        alone = of_one_kind and not cone.form.reduced
        plain = cone.form.kind is KernelKind.POINTWISE
        most = limits.ways if alone else limits.pointwise if plain else limits.others
        if counts[way] <= most:
            kept.append(cone)
    return kept
