"""Priority cuts: for each class a few best ways to compute it from others, merged from its
operands' cuts.

In: a `View`, a device. Out: for each class a `CutList` of `Cut`s, over the values near it.

A *cut* is a body (e-nodes in dependency order, the class itself last) and its leaves, values read
from memory. The cuts of a class are those of its e-nodes, whose operands are each either a leaf or
computed by one of their own cuts (A. Mishchenko, S. Cho, S. Chatterjee, R. Brayton, "Combinational
and sequential mapping with priority cuts", ICCAD 2007). Cuts are kept by price, a few for each
kernel kind; illegal ones are dropped as they appear.

A cut list is written over *local* names 0, 1, 2 … of the classes it mentions, and kept by the shape
of what it was made from. So the thirty equal layers of a network are worked out once.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.attention_bodies import TOTALS
from mgn.dialects.fusion.forms import MOVED
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.passes.saturate.candidates.broadcasts import costs_a_launch, repeats_of
from mgn.passes.saturate.candidates.cuts import MANY, Cut, CutWay, Ranking, Traits
from mgn.passes.saturate.candidates.limits import DEARER, TIME, CutLimits
from mgn.passes.saturate.candidates.needless_reads import (
    Places,
    needless_reads,
    note_besides,
)
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.candidates.readers import classes_pooled, readers_of
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.candidates.rounding_order import keeps_bits
from mgn.passes.saturate.candidates.ways_tried import (
    best_apart,
    best_of_each_kind,
    merges_tried,
    through_views,
)
from mgn.passes.saturate.egraph.view import Signature, ValueClass, View
from mgn.passes.saturate.prices.matrix_price import lying_rounded, shows_rounding, unit_of
from mgn.passes.saturate.prices.operation_figures import operation_weight, widens_half
from mgn.passes.saturate.prices.prices import SCHEDULED, price_per_run
from mgn.passes.schedules.core.figures import ATTENTIONS

VIEWS = frozenset({"reshape", "broadcast_to", "slice"})
"""Movement that any kernel reads through at no cost."""

MOVEMENT = frozenset({"reshape", "slice", "transpose"})
"""Movement by which a value has each element once at most."""

GOING_ONCE = (KernelKind.SCAN, KernelKind.SCATTER, KernelKind.ORDER)
"""Kinds of kernels with a heavy operation that read its operands about once."""

UNPRICED = -1.0
"""The price of a cut that is only known to be legal."""

DEAR = 4.0
"""Weight of an operation from which on its result is better read than computed again."""


@dataclass
class CutList:
    """The cuts of a class, over local names: 0 is the class, `traits[i]` describes name i. `lasts`
    is as those who read the class are to see it.
    """

    number: int
    traits: list[Traits]
    cuts: list[Cut] = field(default_factory=list[Cut])
    lasts: bool = False


@dataclass(slots=True)
class PlacedCuts:
    """A cut list where it stands: `classes[i]` is the class of local name i."""

    cut_list: CutList
    classes: tuple[int, ...]


@dataclass(frozen=True)
class Surroundings:
    """How many read each class, and how often more than once its one reader may compute it."""

    readers: Mapping[int, int]
    repeats: Mapping[int, float]

    @staticmethod
    def of(view: View, device: Device) -> "Surroundings":
        readers = readers_of(view)
        return Surroundings(readers, repeats_of(view, device, readers))


class CutBuilder:
    """Computes cut lists bottom-up, each distinct one once."""

    def __init__(
        self,
        view: View,
        device: Device,
        limits: CutLimits,
        priced: PricedBodies | None = None,
        takers: Mapping[int, int] | None = None,
        around: Surroundings | None = None,
    ) -> None:
        self.view = view
        self.device = device
        self.limits = limits
        self.priced = priced or PricedBodies(view.signatures, device)
        self.ranking = Ranking(view.signatures, device)
        self.placed: dict[int, PlacedCuts] = {}
        self.memo: dict[object, tuple[CutList, tuple[int, ...]]] = table(limits.memoise)
        self.contents: dict[object, CutList] = table(limits.memoise)
        self.traits: dict[int, Traits] = {}
        self.traits_of: dict[int, int] = {}
        self.trait_numbers: dict[Traits, int] = {}
        self.known_traits: dict[tuple[object, ...], tuple[Traits, int]] = {}
        self.numbered: list[CutList] = []
        self.chosen: dict[tuple[object, ...], Sequence[Cut | None]] = {}
        self.takers, self.around = takers, around or Surroundings.of(view, device)
        self.pooled = classes_pooled(view)
        self.considered = 0
        self.left_out = Counter[str]()

    def build(self) -> dict[int, PlacedCuts]:
        """The cut lists of all classes, in dependency order."""
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
                    mapped[operand] = placed.cut_list.number, own
            nodes.append((member.signature, tuple([mapped[item] for item in member.operands])))
        key = (traits, tuple(nodes))
        known = self.memo.get(key)
        if known is None:
            known = self.memo[key] = self._compute(value, nodes, list(names))
        cut_list, selected = known
        if cut_list.lasts:
            self._note_traits(value, replace(self.traits[value.key], lasts=True))
        classes = list(names)
        return PlacedCuts(cut_list, tuple([classes[index] for index in selected]))

    def _compute(
        self,
        value: ValueClass,
        nodes: Sequence[tuple[int, tuple[tuple[int, tuple[int, ...]], ...]]],
        classes: Sequence[int],
    ) -> tuple[CutList, tuple[int, ...]]:
        """A new cut list, and which of the names it was made over it mentions."""
        cuts: list[Cut] = []
        all_traits = [self.traits[key] for key in classes]
        if value.leaf is None:
            for signature, operands in nodes:
                cuts.extend(self._node_cuts(signature, operands, all_traits))
            cuts = self._keep(cuts, all_traits)
        used = {0: 0}
        for cut in cuts:
            for item in cut.known.by_operand:
                used.setdefault(cut.names[item], len(used))
        renamed = [cut.renamed(used) for cut in cuts]
        described = [all_traits[name] for name in used]
        numbers = tuple([self.traits_of[classes[name]] for name in used])
        content = (numbers, tuple([(cut.known, cut.names) for cut in renamed]))
        cut_list = self.contents.get(content)
        if cut_list is None:
            lasts = costs_a_launch(renamed, described, self.view.signatures, self.device)
            cut_list = CutList(len(self.numbered), described, renamed, lasts)
            self.contents[content] = cut_list
            self.numbered.append(cut_list)
        return cut_list, tuple(used)

    def _traits(self, value: ValueClass) -> int:
        """Notes a class's traits, and gives their number; types are hashed once each."""
        users = min(self.around.readers[value.key], 3)
        repeats = self.around.repeats.get(value.key, 0.0)
        outside = users, value.is_output, value.prepared, repeats
        rest = value.in_memory, value.inline, *outside
        takers = None if self.takers is None else min(self.takers.get(value.key, 0), MANY)
        names = {self.view.signatures[member.signature].name for member in value.members}
        views = value.leaf is None and not names.isdisjoint(VIEWS)
        beside = TOTALS in names
        moves = value.leaf is None and names <= MOVEMENT
        pooled = value.key in self.pooled
        key = (id(value.type), *rest, views, beside, moves, takers, value.gathered, pooled)
        known = self.known_traits.get(key)
        if known is None:
            known = self.known_traits[key] = self._note_traits(
                value,
                Traits(
                    *(value.type, *rest, False, views, beside, moves, takers, value.gathered),
                    pooled=pooled,
                ),
            )
        self.traits[value.key], self.traits_of[value.key] = known
        return known[1]

    def _note_traits(self, value: ValueClass, traits: Traits) -> tuple[Traits, int]:
        """Notes what the traits of a class are, and gives them with their number."""
        number = self.trait_numbers.setdefault(traits, len(self.trait_numbers))
        self.traits[value.key], self.traits_of[value.key] = traits, number
        return traits, number

    def _node_cuts(
        self,
        signature: int,
        operands: Sequence[tuple[int, tuple[int, ...]]],
        traits: Sequence[Traits],
    ) -> list[Cut]:
        """Legal cuts of one e-node, over the names of the class being computed.

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
            choices[0] = through_views(choices[0], traits)
        merges = self.limits.attention if attends else self.limits.merges
        self.left_out[TIME] += max(0, math.prod(map(len, choices)) - merges)
        merged: dict[Places, Cut | None] = {}
        names = [mapped[0] for _, mapped in operands]
        order, apart = merges_tried(root.heavy is not None, names, choices, traits, merges)

        def merge(places: Places) -> Cut | None:
            if places not in merged:
                chosen = [choice[place] for choice, place in zip(choices, places, strict=True)]
                merged[places] = self._merge(signature, operands, chosen, traits, priced=not plain)
            return merged[places]

        tried = dict.fromkeys(order)
        replaced = set[Places]()
        if plain:
            reduces = not self.device.is_cpu
            replaced = needless_reads(tried, merge, names, choices, traits, reduces)
        ways = [places for places in tried if places not in replaced]
        found = {places: cut for places in ways if (cut := merge(places)) is not None}
        self.considered += len(tried) - len(merged)
        for places in apart.intersection(found):
            found[places].apart = True
        legal = dict(sorted(found.items(), key=lambda item: bool(item[1].form.reduced)))
        if all(cut.form.reduced for cut in legal.values()):
            nothing = [None] * len(operands)
            cut = self._merge(signature, operands, nothing, traits, bounded=False)
            return [] if cut is None else [cut]
        if plain:
            self.left_out[DEARER] += len(replaced)
            note_besides(legal, names, choices, traits)
        kept = list(legal.values())
        return [self._priced(cut, traits) for cut in kept] if plain else kept

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
    ) -> Sequence[Cut | None]:
        """How an operand may come: None is from memory (or, for a constant, inside the body). What
        goes once over its operands reads a reshape where the value itself lies. Operands of
        attention's gradient, which are many, that are rounded for a matrix unit come so alone;
        those of a product come so first, through movement too.
        """
        operand = traits[mapped[0]]
        if operand.in_memory or operand.inline:
            return [None]
        key = number, root.heavy, kinds, root.name in MOVED, traits[0].prepared
        chosen = self.chosen.get(key)
        if chosen is None:
            apart = operand.prepared and not traits[0].prepared
            chosen = self.chosen[key] = self._chosen(number, root, kinds, apart)
        return [None if cut is None else cut.at(mapped) for cut in chosen]

    def _chosen(
        self, number: int, root: Signature, kinds: Collection[KernelKind], prepared: bool
    ) -> Sequence[Cut | None]:
        """The same, over the names of the operand's cut list: of an operand that is `prepared` for
        an operation that is not.
        """
        heavy, cuts = root.heavy, self.numbered[number].cuts
        if heavy is not None:
            cuts = [cut for cut in cuts if cut.form.kind in kinds]
        if not cuts:
            return [None]
        if prepared:
            tiled = KernelKind.CONTRACTION not in kinds and heavy not in GOING_ONCE
            return self._prepared_choices(cuts, tiled)
        first = [cut for cut in cuts if not cut.besides]
        if heavy is KernelKind.ATTENTION_GRADIENT:
            first = [cut for cut in first if self._shows_rounding(cut)] or first
        own = self.numbered[number].traits
        chosen = [*best_of_each_kind(first, self.limits, own), None]
        if heavy is KernelKind.CONTRACTION or root.name in MOVED:
            rounding = next((cut for cut in first if self._shows_rounding(cut)), None)
            if rounding is not None:
                chosen = [rounding, *(cut for cut in chosen if cut is not rounding)]
        once = heavy in GOING_ONCE and any(map(self._reshapes, chosen))
        if once or (heavy is None and self._slides(cuts)):
            chosen.pop()
        return chosen

    def _prepared_choices(self, cuts: Sequence[Cut], heavy: bool) -> list[Cut | None]:
        """The ways in which a run's kernel may get a prepared value. A view of a parameter is read
        through. A value is never computed again if it is expensive, lies in several places, or is
        read by many tiles. Numbers of two bytes may be read faster than their wide form. A matrix
        unit has to see that its operand is rounded; to round it on the way costs nothing.
        """
        rounded = [cut for cut in cuts if self._shows_rounding(cut)]
        if rounded:
            return [*rounded, None]
        best, signatures = cuts[0], self._operations(cuts[0])
        if all(signature.name in VIEWS for signature in signatures):
            return [best]
        if all(signature.name in VIEWS or widens_half(signature) for signature in signatures):
            return [best, None]
        dear = heavy or any(
            item.name == "concat" or operation_weight(item, self.device) >= DEAR
            for item in signatures
        )
        return [None] if dear else [None, best]

    def _slides(self, cuts: Sequence[Cut]) -> bool:
        """Whether a value is windows, in all of its cuts, and so larger than what it is read from:
        its readers take them as they go on a CPU, where they lie side by side.
        """
        if self.limits.whole or not self.device.is_cpu:
            return False
        pointwise = [cut for cut in cuts if cut.form.kind is KernelKind.POINTWISE]
        return bool(pointwise) and all(
            any(item.name == "windows" for item in self._operations(cut)) for cut in pointwise
        )

    def _operations(self, cut: Cut) -> list[Signature]:
        """What a body computes."""
        return [self.view.signatures[number] for _, number, _ in cut.known.body]

    def _reshapes(self, cut: Cut | None) -> bool:
        """Whether a body is a reshape of what lies in memory."""
        return cut is not None and all(item.name == "reshape" for item in self._operations(cut))

    def _shows_rounding(self, cut: Cut) -> bool:
        """Whether a body rounds for the device's matrix unit what lies in memory, or views."""
        if not self.device.matrix_rates:
            return False
        rest = [item for item in self._operations(cut) if item.name not in VIEWS]
        return bool(rest) and all(shows_rounding(item, self.device) for item in rest)

    def _merge(
        self,
        signature: int,
        operands: Sequence[tuple[int, tuple[int, ...]]],
        combination: Sequence[Cut | None],
        traits: Sequence[Traits],
        bounded: bool = True,
        priced: bool = True,
    ) -> Cut | None:
        """The cut of an e-node whose operands come so, if it is legal; its price may wait where it
        does not decide that.
        """
        names = tuple([mapped[0] for _, mapped in operands])
        cuts = [cut for cut in combination if cut is not None]
        read = [name for name, cut in zip(names, combination, strict=True) if cut is None]
        node, parts = (0, signature, names), [(cut.known, cut.names) for cut in cuts]
        joined = self.priced.joined(node, parts, read)
        if joined is None:
            return None
        known, own = joined
        if len(known.body) > self.limits.operations:
            return None
        if self.limits.keep_bits and not keeps_bits(known.body, self.view.signatures):
            return None
        reads = tuple([item for item in known.leaves if not traits[own[item]].inline])
        if bounded and len(reads) > self.limits.leaves:
            return None
        self.considered += 1
        form = known.form
        if form is None or (form.reduced and self.device.is_cpu):
            return None
        if form.is_open and not traits[0].pooled:
            return None
        leaves = tuple([own[item] for item in reads])
        cut = Cut(known, form, own, reads, leaves, UNPRICED)
        cut.lying = form.kind in ATTENTIONS and self._takes_lying(cut, traits)
        if form.is_open:
            cut.price = max(item.price for item in cuts)
        elif priced or form.kind in SCHEDULED:
            self._priced(cut, traits)
        return None if cut.price == math.inf else cut

    def _takes_lying(self, cut: Cut, traits: Sequence[Traits]) -> bool:
        """Whether an attention takes values from memory that are known to be rounded there. It may
        have to be so for a matrix unit; a product rounds on its way for nothing.
        """
        known = cut.known
        if not lying_rounded(known.body, cut.form, self.view.signatures):
            return False
        return unit_of(self.priced.facts_of(known, cut.results, cut.types(traits))) is not None

    def _priced(self, cut: Cut, traits: Sequence[Traits]) -> Cut:
        """A cut with its price, which may have waited."""
        if cut.price == UNPRICED:
            price = cut.known.prices.get((cut.results, cut.reads))
            if price is None:
                price = self.priced.price_of(cut.known, cut.results, cut.types(traits))
            cut.price = price_per_run(price, traits[0].prepared)
        return cut

    def _keep(self, cuts: Sequence[Cut], traits: Sequence[Traits]) -> list[Cut]:
        """The cuts to keep. They are the best few of each kind, no two with the same leaves and
        body classes, and the best one if a cut pays for its leaves alone. One is the smallest; one
        only rounds, so that a matrix unit sees a rounded operand; one has operands apart. A few
        that stand besides come last.
        """
        kept: list[Cut] = []
        counts: dict[tuple[CutWay, bool], int] = {}
        dropped: dict[CutWay, list[Cut]] = {}
        seen: set[tuple[frozenset[int], CutWay, int | None]] = set()
        ranked = self.ranking.rank(cuts, traits)
        for cut in sorted(ranked, key=lambda item: item.besides):
            key = (frozenset(cut.leaves), cut.way, self.ranking.in_parts(cut))
            kind = cut.way, cut.besides
            count = counts.get(kind, 0)
            if key in seen or count >= self._most_of(cut):
                self.left_out[TIME] += 1
                if not cut.besides:
                    dropped.setdefault(cut.way, []).append(cut)
                continue
            seen.add(key)
            counts[kind] = count + 1
            kept.append(cut)
        for way, others in dropped.items():
            of_way = [*(cut for cut in kept if cut.way == way), *others]
            best = min(of_way, key=lambda item: self.ranking.alone(item, traits))
            if not any(cut is best for cut in kept):
                kept.append(best)
        smallest = min(cuts, key=lambda item: (item.size, item.rank), default=None)
        if smallest is not None and all(cut.size > smallest.size for cut in kept):
            kept.append(smallest)
        rounding = next((cut for cut in ranked if self._shows_rounding(cut)), None)
        if rounding is not None and not any(cut is rounding for cut in kept):
            kept.append(rounding)
        kept += [*best_apart(ranked, kept)]
        return sorted(kept, key=lambda cut: cut.besides)

    def _most_of(self, cut: Cut) -> int:
        """How many cuts like this one are kept of a class."""
        if cut.form.kind is KernelKind.ATTENTION:
            whole = self.ranking.in_parts(cut) is None
            return self.limits.attending if whole else self.limits.in_parts
        return self.limits.besides if cut.besides else self.limits.cuts
