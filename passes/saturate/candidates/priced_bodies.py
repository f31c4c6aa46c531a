"""What equal bodies have in common wherever they stand: form, what a kernel says, and price.

In: bodies, which the numbers of signatures make comparable, over any names. Out: `Form`s, facts and
seconds, for each distinct body worked out once. Bodies are the same that differ in names alone: a
body is looked at over the names 0, 1, 2 … in the order in which it mentions them.

It is no memory of decisions: which bodies there are, and which are kept, each region finds out for
itself where nothing is memoised.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.forms import Body, Facts, Form, classify, renamed
from mgn.passes.saturate.prices.kernel_facts import kernel_facts, priced_facts
from mgn.passes.saturate.prices.plain_work import PlainWork, plain_work
from mgn.passes.saturate.prices.prices import is_plain, kernel_seconds, price_kernel, work_of

_Ends = tuple[tuple[int, ...], tuple[int, ...]]
"""What a kernel of a body writes, and what it reads."""


@dataclass
class _Known:
    """A body over names in their order, and what is known of it: facts and prices by what its
    kernel writes and reads.
    """

    body: Body
    form: Form | None
    said: dict[_Ends, Facts] = field(default_factory=dict[_Ends, Facts])
    prices: dict[_Ends, float] = field(default_factory=dict[_Ends, float])


@dataclass(slots=True)
class _Met:
    """A body as it was met: what is known of it, the place of each of its names, and its form over
    these names.
    """

    known: _Known
    places: Mapping[int, int]
    form: Form | None

    def ends(self, results: Sequence[int], types: Mapping[int, TensorType]) -> _Ends:
        """What a kernel writes and reads, by the places of these names."""
        places = self.places
        return tuple([places[name] for name in results]), tuple(
            sorted([places[name] for name in types])
        )

    def types(self, types: Mapping[int, TensorType]) -> dict[int, TensorType]:
        """Types by the places of their names, in order."""
        return dict(sorted([(self.places[name], type) for name, type in types.items()]))


class PricedBodies:
    """What there is to know of bodies over one list of signatures, which may grow, on a device."""

    def __init__(self, signatures: Sequence[Signature], device: Device) -> None:
        self.signatures = signatures
        self.device = device
        self.known: dict[Body, _Known] = {}
        self.met: dict[Body, _Met] = {}

    def form(self, body: Body) -> Form | None:
        """The form of a body; None where no kernel computes it."""
        return self._met(body).form

    def facts(self, body: Body, results: tuple[int, ...], types: Mapping[int, TensorType]) -> Facts:
        """What the kernel of a body that writes `results` and reads what `types` names says."""
        met = self._met(body)
        return self._facts(met, met.ends(results, types), types) if self._says(met) else ()

    def price(self, body: Body, results: tuple[int, ...], types: Mapping[int, TensorType]) -> float:
        """Seconds for the kernel of a body that writes `results` and reads what `types` names."""
        met = self._met(body)
        return self._price(met, met.ends(results, types), types)

    def prices_with(
        self,
        body: Body,
        extras: Sequence[int],
        sets: Sequence[tuple[int, ...]],
        types: Mapping[int, TensorType],
    ) -> list[float]:
        """Seconds for kernels of one body that write its last value and a set of `extras` each: a
        plain body is gone over once where it evaluates these as often anyway.
        """
        met, root, works = self._met(body), body[-1][0], list[PlainWork | None]()
        found: list[float] = []
        for chosen in sets:
            ends = met.ends((root, *chosen), types)
            price = met.known.prices.get(ends)
            if price is None:
                works = works or [self._plain_with(met, extras, types)]
                price = self._price(met, ends, types, works[0])
            found.append(price)
        return found

    def _met(self, body: Body) -> _Met:
        """A body as it was met before, or is now."""
        met = self.met.get(body)
        if met is None:
            met = self.met[body] = self._new(body)
        return met

    def _new(self, body: Body) -> _Met:
        names = [item for name, _, operands in body for item in (name, *operands)]
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        alike = renamed(body, places)
        known = self.known.get(alike)
        if known is None:
            form = classify(alike, self.signatures)
            known = self.known[alike] = _Known(alike, form)
        return _Met(known, places, None if known.form is None else known.form.at([*places]))

    def _says(self, met: _Met) -> bool:
        """Whether kernels of a body may say something."""
        form = met.known.form
        assert form is not None, "a kernel's body has a form"
        plain = form.kind is KernelKind.POINTWISE
        return not plain and (form.has_rows or bool(self.device.matrix_rates))

    def _facts(self, met: _Met, ends: _Ends, types: Mapping[int, TensorType]) -> Facts:
        known, form = met.known, met.known.form
        facts = known.said.get(ends)
        if facts is None:
            assert form is not None, "a kernel's body has a form"
            own = known.body, form, ends[0], met.types(types), self.signatures, self.device
            if form.kind is KernelKind.CONTRACTION:
                known.prices[ends], facts = priced_facts(*own)
            else:
                facts = kernel_facts(*own)
            known.said[ends] = facts
        return facts

    def _price(
        self,
        met: _Met,
        ends: _Ends,
        types: Mapping[int, TensorType],
        plain: PlainWork | None = None,
    ) -> float:
        """A kernel's price; where it is known what a plain body takes, by that."""
        known = met.known
        price = known.prices.get(ends)
        if price is not None:
            return price
        facts = self._facts(met, ends, types) if self._says(met) else ()
        if ends not in known.prices:
            assert known.form is not None, "a kernel's body has a form"
            own = known.body, known.form, ends[0], met.types(types), self.signatures, self.device
            if plain is None:
                known.prices[ends] = price_kernel(*own, facts)
            else:
                known.prices[ends] = kernel_seconds(work_of(plain, *own), self.device)
        return known.prices[ends]

    def _plain_with(
        self, met: _Met, extras: Sequence[int], types: Mapping[int, TensorType]
    ) -> PlainWork | None:
        """What a plain body takes that evaluates some of its values as often as to write them; None
        for another one.
        """
        known, wanted = met.known, {met.places[name] for name in extras}
        form, root = known.form, known.body[-1][0]
        assert form is not None, "a kernel's body has a form"
        if not is_plain(form, ()):
            return None
        plain = plain_work(
            known.body, form, (root,), met.types(types), self.signatures, self.device
        )
        if plain is None:
            return None
        as_often = all(
            plain.evaluates(name, self.signatures[number], form)
            for name, number, _ in known.body
            if name in wanted
        )
        return plain if as_often else None
