"""What equal bodies have in common wherever they stand: form, what a kernel says, and price.

In: bodies, which the numbers of signatures make comparable, over any names. Out: `Form`s, facts and
seconds, for each distinct body worked out once. Bodies are the same that differ in names alone: a
body is looked at over the names 0, 1, 2 … in the order in which it mentions them.

It is no memory of decisions: which bodies there are, and which are kept, each region finds out for
itself where nothing is memoised.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import Body, BodyNode, renamed
from mgn.passes.saturate.prices.forms import Facts, Form, classify, classify_joined
from mgn.passes.saturate.prices.kernel_facts import kernel_facts, may_say, priced_facts
from mgn.passes.saturate.prices.plain_work import BodyWork, plain_work
from mgn.passes.saturate.prices.prices import (
    is_plain,
    kernel_seconds,
    measure_kernel,
    price_kernel,
    work_of,
)

_Ends = tuple[tuple[int, ...], tuple[int, ...]]
"""What a kernel of a body writes, and what it reads."""

_Types = Mapping[int, TensorType]


class KnownBody:
    """A body over the names 0, 1, 2 … in the order in which it mentions them, and what is known of
    it: what it computes and reads, its form, and facts and prices by what its kernel writes and
    reads; `says` is whether there may be any facts.
    """

    def __init__(self, body: Body, form: Form | None, leaves: Iterable[int] | None = None) -> None:
        self.body, self.form = body, form
        self.inside = tuple([name for name, _, _ in body])
        self.leaves = tuple(sorted(leaves_of(body) if leaves is None else leaves))
        self.says: bool | None = None
        self.said: dict[_Ends, Facts] = {}
        self.prices: dict[_Ends, float] = {}

    @cached_property
    def by_operand(self) -> tuple[int, ...]:
        """Its names in the order in which operands come before what reads them."""
        mentioned = [item for name, _, operands in self.body for item in (*operands, name)]
        return tuple(dict.fromkeys(mentioned))

    @property
    def kernel(self) -> Form:
        """The form of a body that a kernel computes."""
        assert self.form is not None, "a kernel's body has a form"
        return self.form


Part = tuple[KnownBody, tuple[int, ...]]
"""A body, and what stands in the place of each of its names."""


_Joined = tuple[KnownBody, tuple[int, ...] | None]
"""A body that was joined, and what stands in the place of each of its names: where nothing is said,
each name itself.
"""


@dataclass(slots=True)
class _Met:
    """A body as it was met: what is known of it, the place of each of its names, and its form over
    these names.
    """

    known: KnownBody
    places: Mapping[int, int]
    form: Form | None

    def at(self, names: Sequence[int]) -> tuple[int, ...]:
        """The places of these names."""
        return tuple([self.places[name] for name in names])

    def types(self, types: _Types) -> dict[int, TensorType]:
        """Types by the places of their names, in order."""
        return dict(sorted([(self.places[name], type) for name, type in types.items()]))


class PricedBodies:
    """What there is to know of bodies over one list of signatures, which may grow, on a device."""

    def __init__(self, signatures: Sequence[Signature], device: Device) -> None:
        self.signatures = signatures
        self.device = device
        self.known: dict[Body, KnownBody] = {}
        self.met: dict[Body, _Met] = {}
        self.joins: dict[tuple[object, ...], _Joined | None] = {}

    def form(self, body: Body) -> Form | None:
        """The form of a body; None where no kernel computes it."""
        return self._met(body).form

    def facts(self, body: Body, results: tuple[int, ...], types: _Types) -> Facts:
        """What the kernel of a body that writes `results` and reads what `types` names says."""
        met = self._met(body)
        return self.facts_of(met.known, met.at(results), met.types(types))

    def price(self, body: Body, results: tuple[int, ...], types: _Types) -> float:
        """Seconds for the kernel of a body that writes `results` and reads what `types` names."""
        met = self._met(body)
        return self.price_of(met.known, met.at(results), met.types(types))

    def part(self, body: Body) -> Part:
        """What is known of a body, and its names."""
        names = tuple(dict.fromkeys([item for node in body for item in (node[0], *node[2])]))
        alike = renamed(body, {name: place for place, name in enumerate(names)})
        known = self.known.get(alike)
        if known is None:
            known = self.known[alike] = KnownBody(alike, classify(alike, self.signatures))
        return known, names

    def joined(self, node: BodyNode, parts: Sequence[Part], read: Sequence[int]) -> Part | None:
        """The body of an operation and of the parts that compute its operands, but for those that
        are `read`: the parts in their order, with what they have in common once. Where what one of
        them reads another one computes, or both do in other ways, operands come first, each as the
        first part computes it. None where that depends on itself.
        """
        names: dict[int, int] = {}
        own = names.setdefault
        placed = [
            (known, tuple([own(item, len(names)) for item in of_part])) for known, of_part in parts
        ]
        name, number, operands = node
        last = own(name, len(names)), number, tuple([own(item, len(names)) for item in operands])
        key = last, tuple([names[item] for item in read]), *placed
        try:
            found = self.joins[key]
        except KeyError:
            found = self.joins[key] = self._join(last, placed, key[1])
        if found is None:
            return None
        known, order = found
        if order is None:
            return known, tuple(names)
        outside = list(names)
        return known, tuple([outside[item] for item in order])

    def _join(self, last: BodyNode, parts: Sequence[Part], read: Sequence[int]) -> _Joined | None:
        nodes: dict[int, BodyNode] = {}
        leaves = set(read)
        for known, names in parts:
            for node in renamed(known.body, names) if nodes else known.body:
                if nodes.setdefault(node[0], node) != node:
                    return self._in_order(last, parts)
            leaves.update([names[leaf] for leaf in known.leaves])
        if last[0] in nodes or last[0] in leaves or not leaves.isdisjoint(nodes):
            return self._in_order(last, parts)
        body = (*nodes.values(), last)
        found = self.known.get(body)
        if found is None:
            forms = [(known.kernel, names) for known, names in parts]
            form = classify_joined(body, forms, self.signatures)
            found = self.known[body] = KnownBody(body, form, leaves)
        return found, None

    def _in_order(self, last: BodyNode, parts: Sequence[Part]) -> _Joined | None:
        """The body with operands first, and the names of its own ones; None where there is none."""
        nodes: dict[int, BodyNode] = {}
        for known, names in parts:
            for node in renamed(known.body, names):
                nodes.setdefault(node[0], node)
        if last[0] in nodes:
            return None
        nodes[last[0]] = last
        ordered = body_order(nodes, last[:1])
        return None if ordered is None else self.part(tuple(ordered))

    def _met(self, body: Body) -> _Met:
        """A body as it was met before, or is now."""
        met = self.met.get(body)
        if met is None:
            known, names = self.part(body)
            places = {name: place for place, name in enumerate(names)}
            form = None if known.form is None else known.form.at(names)
            met = self.met[body] = _Met(known, places, form)
        return met

    def facts_of(self, known: KnownBody, results: tuple[int, ...], types: _Types) -> Facts:
        """What the kernel of a known body says, over its names: types are in their order."""
        return self._facts(known, (results, tuple(types)), types) if self._says(known) else ()

    def price_of(
        self,
        known: KnownBody,
        results: tuple[int, ...],
        types: _Types,
        gone_over: BodyWork | None = None,
    ) -> float:
        """Seconds for it; where it is known what its body takes, by that."""
        ends = results, tuple(types)
        price = known.prices.get(ends)
        if price is not None:
            return price
        facts = self.facts_of(known, results, types)
        if ends not in known.prices:
            own = known.body, known.kernel, results, types, self.signatures, self.device
            if gone_over is None:
                known.prices[ends] = price_kernel(*own, facts)
            else:
                known.prices[ends] = kernel_seconds(work_of(gone_over, *own), self.device)
        return known.prices[ends]

    def prices_with(
        self,
        known: KnownBody,
        extras: Sequence[int],
        sets: Sequence[tuple[int, ...]],
        types: _Types,
    ) -> list[float]:
        """Seconds for kernels of one body that write its last value and a set of `extras` each: the
        body is gone over once where it evaluates these as often anyway.
        """
        root, works = known.body[-1][0], list[BodyWork | None]()
        read, found = tuple(types), list[float]()
        for chosen in sets:
            results = root, *chosen
            price = known.prices.get((results, read))
            if price is None:
                works = works or [self._gone_over(known, extras, types)]
                price = self.price_of(known, results, types, works[0])
            found.append(price)
        return found

    def _says(self, known: KnownBody) -> bool:
        """Whether kernels of a body may say something."""
        if known.says is None:
            known.says = may_say(known.body, known.kernel, self.signatures, self.device)
        return known.says

    def _facts(self, known: KnownBody, ends: _Ends, types: _Types) -> Facts:
        facts = known.said.get(ends)
        if facts is None:
            form = known.kernel
            own = known.body, form, ends[0], types, self.signatures, self.device
            if form.kind is KernelKind.CONTRACTION:
                known.prices[ends], facts = priced_facts(*own)
            else:
                facts = kernel_facts(*own)
            known.said[ends] = facts
        return facts

    def _gone_over(self, known: KnownBody, extras: Sequence[int], types: _Types) -> BodyWork | None:
        """What a body takes that evaluates some of its values as often as to write them; None for
        another one.
        """
        form, signatures = known.kernel, self.signatures
        written = [(name, signatures[number]) for name, number, _ in known.body if name in extras]
        own = known.body, form, known.inside[-1:], types, signatures, self.device
        if is_plain(form, ()):
            work = plain_work(*own)
        elif form.kind is KernelKind.CONTRACTION and self.device.is_cpu:
            windows = any(item.name == "windows" for _, item in written)
            work = None if windows else measure_kernel(*own).gone_over
        else:
            return None
        if work is None:
            return None
        return work if all(work.evaluates(*item, form) for item in written) else None


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
