"""Every kernel of a small graph that a choice of some cost may have.

In: a view, what is known of its candidates, a device, limits, and the most that a choice may cost.
Out: templates: each legal body (kernel_bodies.py), with each set of its values that it may write,
and what it is arranged as. Left out is:

- What no form or template can be.
- A kernel that writes no output, and with one more launch costs more than a choice may.
- A value inside a body that is no output, and whose one reader r is elementwise, of its shape, of
  elements as narrow, and inside too: it is not written. Let a kernel c read the value: it does so
  to compute r. The kernel that writes r in its place writes no more, and c that reads r reads no
  more and computes less.

So each choice that costs at most `most` is a choice among these kernels, or one of these is no
dearer, if prices are such that a kernel of a wider body, or of more results, costs no less.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import inf

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.passes.saturate.candidates.arranging import Arranger, NewValues
from mgn.passes.saturate.candidates.candidates import CandidateSet, Template
from mgn.passes.saturate.candidates.cuts import Traits
from mgn.passes.saturate.candidates.kernel_bodies import KernelBodies, Part
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.candidates.priced_bodies import PricedBodies, body_order
from mgn.passes.saturate.candidates.rounding_order import keeps_bits
from mgn.passes.saturate.candidates.within import SLACK
from mgn.passes.saturate.egraph.view import ValueClass, View
from mgn.passes.saturate.prices.bodies import Body, BodyNode
from mgn.passes.saturate.prices.forms import Form
from mgn.passes.saturate.prices.prices import price_per_run

BODY = 0.3
"""What a body takes of the time of pricing a kernel."""


class EveryKernel:
    """The kernels of a view, over the places of its `classes`, and what arrangements make."""

    def __init__(
        self,
        view: View,
        found: CandidateSet,
        device: Device,
        limits: CutLimits,
        heavy_roots: bool = True,
    ) -> None:
        self.device, self.limits, self.signatures = device, limits, view.signatures
        self.priced = PricedBodies(view.signatures, device)
        self.bodies = KernelBodies(view, found.handed, device, limits.kernels, heavy_roots)
        self.values, self.classes = self.bodies.values, self.bodies.classes
        self.outputs = [self.bodies.place[key] for key in found.outputs]
        self.hidden = self._hidden()
        self.arranger = Arranger(view, device, limits.keep_bits)
        self.made = NewValues([_traits_of(value) for value in self.values])
        self.met = 0

    def least(self, most: float) -> float:
        """The least that any choice costs, if not more than `most`: found from what it takes to
        obtain each class, which is noted.
        """
        obtained = self.bodies.obtained
        for place, value in enumerate(self.values):
            if value.leaf is None:
                obtained[place] = self._least(place, most)
        return max([obtained[place] for place in self.outputs], default=0.0)

    def templates(self, most: float) -> list[Template]:
        """The templates of all kernels that a choice of at most that cost may have, which is no
        more than that which `least` was asked about; TooMany where there are too many.
        """
        most *= 1.0 + SLACK
        return [item for part in self.bodies.of(most) for item in self.kernels_of(part, most)]

    def _least(self, place: int, most: float) -> float:
        """The least that it takes to obtain a class by a kernel that writes it alone; or in any
        way, where several kernels or an update may do so.
        """
        least, found = self.bodies.least(place), inf
        if self.bodies.others & (self.bodies.below[place] | 1 << place):
            return least
        for part in self.bodies.alone(place, most):
            for template in self.kernels_of(part, most, alone=True):
                if template.results != (place,) or template.arranged is not None:
                    return least
                found = min(found, part.before + template.price)
        return found

    def _hidden(self) -> dict[int, int]:
        """The classes that are not written beside their one reader, with that reader."""
        readers: dict[int, list[BodyNode]] = {}
        for place, value in enumerate(self.values):
            for member in value.members:
                operands = tuple(self.bodies.place.get(item, -1) for item in member.operands)
                for item in set(operands):
                    readers.setdefault(item, []).append((place, member.signature, operands))
        return {
            place: nodes[0][0]
            for place, nodes in readers.items()
            if len(nodes) == 1 and self._stands_for(nodes[0], place)
        }

    def _stands_for(self, reader: BodyNode, place: int) -> bool:
        """Whether what a value's one reader computes may be written in the value's place."""
        signature, made, value = self.signatures[reader[1]], reader[0], self.values[place]
        if value.is_output or value.users != 1 or signature.kind is not Kind.ELEMENTWISE:
            return False
        same = signature.shape == tuple(value.type.get_shape())
        same = same and self.values[made].prepared is value.prepared
        return same and self.bodies.bytes[made] <= self.bodies.bytes[place]

    def kernels_of(self, part: Part, most: float, alone: bool = False) -> Iterator[Template]:
        """The kernels of a body: each writes its roots, and not `alone` any other values of it."""
        self.bodies.count(BODY)
        ordered = body_order({node[0]: node for node in part.nodes}, part.roots)
        assert ordered is not None, "e-nodes of a view wait for themselves"
        body = tuple(ordered)
        form = self._form(body, part)
        reads = self._reads(body, part)
        if form is None or len(reads) > self.limits.leaves:
            return
        types = {item: self.values[item].type for item in reads}
        inputs = tuple(item for item in reads if self.values[item].leaf is None)
        prepared = self.values[part.roots[0]].prepared
        for extra in [()] if alone else self._extras(body, form, part):
            results = (*part.roots, *extra)
            if not alone and self._floor(part, extra) > most:
                continue
            self.bodies.count(1.0)
            self.met += 1
            price = price_per_run(self.priced.price(body, results, types), prepared)
            dear = part.before + price > most
            if price == inf or (dear and form.kind is KernelKind.POINTWISE):
                if not extra:
                    return
                continue
            facts = self.priced.facts(body, results, types)
            template = Template(body, form, results, reads, inputs, price, facts)
            offered = self._arranged(template)
            if len(offered) > 1 or not dear:
                yield from offered
            elif not extra:
                return

    def _arranged(self, template: Template) -> Sequence[Template]:
        """A template as it is, or what is best in its place and waits for none of its results."""
        if template.form.kind is KernelKind.POINTWISE:
            return [template]
        offered = list(self.arranger.offers(template, self.made))
        return [template] if any(map(self._waits, offered)) else offered

    def _waits(self, piece: Template) -> bool:
        """Whether an input of a kernel of an arrangement depends on a result."""
        if len(piece.results) == 1:
            return False
        needed = {name for item in piece.inputs for name in self.made.made_from(item)}
        return any(
            self.bodies.below[item] >> result & 1 for item in needed for result in piece.results
        )

    def _floor(self, part: Part, extra: Sequence[int]) -> float:
        """What a choice costs at least that has a kernel of a body: another one reads a result
        where none is an output.
        """
        floor = self.bodies.floor(part, extra)
        if any(self.values[item].is_output for item in (*part.roots, *extra)):
            return floor
        return floor + price_per_run(self.device.launch_cost, self.values[part.roots[0]].prepared)

    def _form(self, body: Body, part: Part) -> Form | None:
        """The form of a body; None where no kernel computes its roots."""
        limits, several, last = self.limits, len(part.roots) > 1, part.roots[0]
        if len(body) > limits.operations:
            return None
        form = self.priced.form(body)
        if form is None or (form.reduced and (self.device.is_cpu or several)):
            return None
        if limits.keep_bits and not keeps_bits(body, self.signatures):
            return None
        signatures = {name: self.signatures[number] for name, number, _ in body}
        rest = part.roots if several else ()
        fits = all(form.writable(root, signatures[root], signatures[last]) for root in rest)
        return form if fits else None

    def _reads(self, body: Body, part: Part) -> tuple[int, ...]:
        """What a body reads from memory, in order."""
        met = dict.fromkeys(item for _, _, operands in body for item in operands)
        return tuple(
            [item for item in met if not part.inside >> item & 1 and not self.values[item].inline]
        )

    def _extras(self, body: Body, form: Form, part: Part) -> Iterator[tuple[int, ...]]:
        """The sets of values inside a body that may be written besides its roots, none first."""
        root = next(self.signatures[number] for name, number, _ in body if name == part.roots[0])
        prepared = self.values[part.roots[0]].prepared
        needed = self.bodies.needed(part)
        extras = [
            name
            for name, number, _ in body
            if name not in part.roots
            and not needed >> name & 1
            and not (name in self.hidden and part.inside >> self.hidden[name] & 1)
            and self.values[name].prepared is prepared
            and form.writable(name, self.signatures[number], root)
        ]
        for count in range(len(extras) + 1):
            yield from combinations(extras, count)


def _traits_of(value: ValueClass) -> Traits:
    return Traits(
        *(value.type, value.in_memory, value.inline, value.users, value.is_output, value.prepared),
        gathered=value.gathered,
    )
