"""What equal bodies have in common wherever they stand: form, what a kernel says, and price.

In: bodies over names of their own, which the numbers of signatures make comparable. Out: `Form`s,
facts and seconds, for each distinct body worked out once.

It is no memory of decisions: which bodies there are, and which are kept, each region finds out for
itself where nothing is memoised.
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.forms import Body, Facts, Form, classify
from mgn.passes.saturate.prices.kernel_facts import kernel_facts, priced_facts
from mgn.passes.saturate.prices.plain_work import plain_work
from mgn.passes.saturate.prices.prices import is_plain, kernel_seconds, price_kernel, work_of

_Written = tuple[Body, tuple[int, ...], tuple[int, ...]]


class PricedBodies:
    """What there is to know of bodies over one list of signatures, which may grow, on a device."""

    def __init__(self, signatures: Sequence[Signature], device: Device) -> None:
        self.signatures = signatures
        self.device = device
        self.forms: dict[Body, Form | None] = {}
        self.said: dict[_Written, Facts] = {}
        self.prices: dict[_Written, float] = {}

    def form(self, body: Body) -> Form | None:
        """The form of a body; None where no kernel computes it."""
        try:
            return self.forms[body]
        except KeyError:
            found = self.forms[body] = classify(body, self.signatures)
            return found

    def facts(
        self, body: Body, form: Form, results: tuple[int, ...], types: Mapping[int, TensorType]
    ) -> Facts:
        """What the kernel of a body that writes `results` and reads what `types` names says."""
        if form.kind is KernelKind.POINTWISE or not (form.has_rows or self.device.matrix_rates):
            return ()
        key = body, results, tuple(types)
        facts = self.said.get(key)
        if facts is None:
            if form.kind is KernelKind.CONTRACTION:
                self.prices[key], facts = priced_facts(
                    body, form, results, types, self.signatures, self.device
                )
            else:
                facts = kernel_facts(body, form, results, types, self.signatures, self.device)
            self.said[key] = facts
        return facts

    def price(
        self, body: Body, form: Form, results: tuple[int, ...], types: Mapping[int, TensorType]
    ) -> float:
        """Seconds for the kernel of a body that writes `results` and reads what `types` names."""
        key = body, results, tuple(types)
        price = self.prices.get(key)
        if price is not None:
            return price
        facts = self.facts(body, form, results, types)
        if key not in self.prices:
            self.prices[key] = price_kernel(
                body, form, results, types, self.signatures, self.device, facts
            )
        return self.prices[key]

    def prices_with(
        self,
        body: Body,
        form: Form,
        extras: Sequence[int],
        sets: Sequence[tuple[int, ...]],
        types: Mapping[int, TensorType],
    ) -> list[float]:
        """Seconds for kernels of one body that write its last value and a set of `extras` each: a
        plain body is gone over once where it evaluates these as often anyway.
        """
        root = body[-1][0]
        known = {name: self.signatures[number] for name, number, _ in body if name in extras}
        plain = None
        if sets and is_plain(form, ()):
            plain = plain_work(body, form, (root,), types, self.signatures, self.device)
        if plain is None or not all(
            plain.evaluates(name, item, form) for name, item in known.items()
        ):
            return [self.price(body, form, (root, *chosen), types) for chosen in sets]
        works = [
            work_of(plain, body, form, (root, *chosen), types, self.signatures, self.device)
            for chosen in sets
        ]
        return [kernel_seconds(work, self.device) for work in works]
