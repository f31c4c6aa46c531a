"""The candidates of a graph: what its cut lists offer, as one kernel or arranged as several.

In: a view and a device. Out: the `CandidateSet`; what arrangements hand from kernel to kernel is
then in the view too.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from mgn.diagnostics import MgnError
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.candidates.arranging import Arranger, NewValues, Placer
from mgn.passes.saturate.candidates.candidates import (
    CandidateSet,
    ColumnSum,
    Template,
    undominated,
)
from mgn.passes.saturate.candidates.column_sums import is_column_sum
from mgn.passes.saturate.candidates.cut_lists import CutBuilder, CutList, PlacedCuts, Surroundings
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.outlines import Outlines
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.candidates.repetition import table
from mgn.passes.saturate.egraph.view import View
from mgn.passes.saturate.prices.prices import price_per_run

DEFAULT_LIMITS = CutLimits()


class NoKernel(MgnError, RuntimeError):
    """A value that no kernel form can compute."""


def find_candidates(
    view: View, device: Device, reach: Reach, limits: CutLimits = DEFAULT_LIMITS
) -> CandidateSet:
    """The candidates that can take part in computing the outputs of a view."""
    return CandidateFinder(view, device).find(reach, limits)


class CandidateFinder:
    """Finds the candidates of a view, and once more where a choice of some is known."""

    def __init__(self, view: View, device: Device) -> None:
        self.view, self.device, self.bare = view, device, view.copy()
        self.priced = PricedBodies(view.signatures, device)
        self.outlines = Outlines(view.signatures, device)
        self.around = Surroundings.of(self.bare, device)

    def find(
        self,
        reach: Reach,
        limits: CutLimits,
        takers: Mapping[int, int] | None = None,
        handed: Collection[int] = (),
    ) -> CandidateSet:
        """The candidates that can take part in computing the outputs. `takers` says by how many
        kernels of a choice each value is read that lies in memory there; `handed` are the values
        that arrangements found before have entered into the view.
        """
        view, placer = self.view, Placer(self.view, handed)
        builder = CutBuilder(self.bare, self.device, limits, self.priced, takers, self.around)
        placed = builder.build()
        found = CandidateSet(considered=builder.considered, left_out=builder.left_out)
        found.memoise, found.priced = limits.memoise, self.priced
        wanted = [root for root in dict.fromkeys(view.outputs) if not view.classes[root].leaf]
        found.outputs = tuple(wanted)
        arranger = Arranger(view, self.device, limits.keep_bits, self.outlines)
        offers = _Offers(view, reach, limits, self.priced, arranger)
        queued = set(wanted)
        while wanted:
            key = wanted.pop()
            offered, values = offers.of(placed[key])
            classes = placed[key].classes
            met = [classes[name] for name in offered.mentioned]
            wanted += [item for item in met if item not in queued and item in placed]
            queued.update(met)
            if values.made:
                classes = placer.place(values, classes)
            for template in offered.templates:
                if not values.made or placer.is_first(template, classes):
                    found.add(template, classes)
            for template in offered.sums:
                sums = ColumnSum(template, placed[key].classes, placed[key].cut_list.traits)
                found.sums.append(sums)
            if not offered.templates:
                value = view.classes[key]
                names = sorted({view.signatures[item.signature].name for item in value.members})
                raise NoKernel(f"no kernel form can compute {' or '.join(names)} : {value.type}")
        placer.sort()
        found.handed = frozenset(placer.known.values())
        found.position = {key: place for place, key in enumerate(view.classes)}
        return found


NOTHING, WHOLE, ARRANGED = range(3)


@dataclass(frozen=True)
class _Offer:
    """A template, and the ways to try it: not at all, as it is, or what is best in its place."""

    whole: Template
    ways: tuple[tuple[Template, ...], ...]

    @property
    def price(self) -> float:
        """What it costs in the cheapest of these ways."""
        best = self.ways[ARRANGED]
        alone = any(template.body is self.whole.body for template in best)
        return self.whole.price if alone else sum(template.price for template in best)

    @property
    def has_several(self) -> bool:
        """Whether a template of it has several results, and so could wait for itself."""
        if len(self.whole.results) > 1:
            return True
        return any(len(template.results) > 1 for template in self.ways[ARRANGED])


@dataclass(frozen=True)
class _Offered:
    """The templates of a cut list that are left, the names of its values that any of them reads or
    writes, in their order, and sums of columns, whatever is left of these.
    """

    templates: Sequence[Template]
    mentioned: Sequence[int]
    sums: Sequence[Template]


class _Offers:
    """Templates of a placed cut list, worked out once for each cut list."""

    def __init__(
        self,
        view: View,
        reach: Reach,
        limits: CutLimits,
        priced: PricedBodies,
        arranger: Arranger,
    ) -> None:
        self.view = view
        self.priced, self.arranger = priced, arranger
        self.reach = reach
        self.limits = limits
        self.values: dict[int, NewValues] = {}
        self.made: dict[int, tuple[list[_Offer], list[int]]] = table(limits.memoise)
        self.summed: dict[int, list[Template]] = table(limits.memoise)
        self.kept: dict[tuple[int, tuple[tuple[int, int], ...]], _Offered] = table(limits.memoise)

    def of(self, placed: PlacedCuts) -> tuple[_Offered, NewValues]:
        """The templates worth trying there, none that would wait for itself, and the values that
        they make besides the cut list's.
        """
        cut_list, classes = placed.cut_list, placed.classes
        made = self.made.get(cut_list.number)
        if made is None:
            self.values[cut_list.number] = NewValues(cut_list.traits)
            offers = list(self._make(cut_list))
            several = [place for place, offer in enumerate(offers) if offer.has_several]
            made = self.made[cut_list.number] = offers, several
        values = self.values[cut_list.number]
        offers, several = made
        changed = tuple(
            [
                (place, way)
                for place in several
                if (way := self._left(offers[place], classes, values)) != ARRANGED
            ]
        )
        kept = self.kept.get((cut_list.number, changed))
        if kept is None:
            left = dict(changed)
            tried = [offer.ways[left.get(place, ARRANGED)] for place, offer in enumerate(offers)]
            templates = [template for templates in tried for template in templates]
            kept = self.kept[cut_list.number, changed] = _offered(
                templates, len(cut_list.traits), self._sums(cut_list, offers)
            )
        return kept, values

    def _sums(self, cut_list: CutList, made: Sequence[_Offer]) -> Sequence[Template]:
        """The sums of columns of a cut list, at the price of what is best in their place."""
        found = self.summed.get(cut_list.number)
        if found is None:
            found = self.summed[cut_list.number] = [
                replace(offer.whole, price=offer.price)
                for offer in made
                if is_column_sum(offer.whole, self.view.signatures)
                and not cut_list.traits[0].prepared
            ]
        return found

    def _left(self, offer: _Offer, classes: tuple[int, ...], values: NewValues) -> int:
        """Which way is left of those that an offer has there."""
        depends, whole = self.reach.depends, offer.whole
        for extra in whole.results[1:]:
            for item in whole.inputs:
                if depends(classes[item], classes[extra]):
                    return NOTHING
        if offer.ways[ARRANGED] == offer.ways[WHOLE]:
            return ARRANGED
        waits = any(self._waits(piece, classes, values) for piece in offer.ways[ARRANGED])
        return WHOLE if waits else ARRANGED

    def _waits(self, piece: Template, classes: tuple[int, ...], values: NewValues) -> bool:
        """Whether an input of a kernel of an arrangement depends on a result."""
        if len(piece.results) == 1:
            return False
        inputs = {name for item in piece.inputs for name in values.made_from(item)}
        return any(
            self.reach.depends(classes[item], classes[result])
            for result in piece.results
            for item in inputs
            if result < len(classes) and item != result
        )

    def _make(self, cut_list: CutList) -> Iterator[_Offer]:
        for template in self._templates(cut_list):
            best = tuple(self.arranger.offers(template, self.values[cut_list.number]))
            yield _Offer(template, ((), (template,), best))

    def _templates(self, cut_list: CutList) -> Iterator[Template]:
        traits = cut_list.traits
        signatures = self.view.signatures
        prepared = traits[0].prepared
        for cut in cut_list.cuts:
            if cut.form.is_open:
                continue
            known, names, leaves = cut.known, cut.names, cut.leaves
            body, form, types = cut.body, cut.form.at(names), cut.types(traits)
            inputs = tuple([name for name in leaves if not traits[name].in_memory])
            facts = self.priced.facts_of(known, cut.results, types)
            yield Template(body, form, (0,), leaves, inputs, cut.price, facts)
            root = signatures[body[-1][1]]
            extras = [
                item
                for item, signature, _ in known.body[:-1]
                if traits[names[item]].stored
                and traits[names[item]].prepared is prepared
                and cut.form.writable(item, signatures[signature], root)
            ]
            extras = extras[-self.limits.extras :]
            sets = list(self._subsets(extras))
            prices = self.priced.prices_with(known, extras, sets, types)
            for chosen, alone in zip(sets, prices, strict=True):
                results = (0, *[names[item] for item in chosen])
                price = price_per_run(alone, prepared)
                facts = self.priced.facts_of(known, (*cut.results, *chosen), types)
                yield Template(body, form, results, leaves, inputs, price, facts)

    def _subsets(self, names: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Non-empty subsets worth trying: singles, pairs, and all."""
        for size in sorted({1, 2, len(names)}.intersection(range(1, len(names) + 1))):
            yield from combinations(names, size)


def _offered(templates: Sequence[Template], known: int, sums: Sequence[Template]) -> _Offered:
    left = undominated(templates)
    met = dict.fromkeys(name for item in left for name in (*item.inputs, *item.results))
    return _Offered(left, [name for name in met if name < known], sums)
