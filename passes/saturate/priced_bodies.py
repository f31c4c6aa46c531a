"""What equal bodies have in common wherever they stand: form, use of a matrix unit, and price.

In: bodies over names of their own, which the numbers of signatures make comparable. Out: `Form`s,
facts and seconds, for each distinct body worked out once.

It is no memory of decisions: which bodies there are, and which are kept, each region finds out for
itself where nothing is memoised.
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType

from mgn.dialects.kernel.device import Device
from mgn.passes.saturate.forms import BodyNode, Facts, Form, classify
from mgn.passes.saturate.matrix_price import unit_facts
from mgn.passes.saturate.prices import price_kernel
from mgn.passes.saturate.view import Signature

Body = tuple[BodyNode, ...]


class PricedBodies:
    """What there is to know of bodies over one list of signatures, which may grow, on a device."""

    def __init__(self, signatures: Sequence[Signature], device: Device) -> None:
        self.signatures = signatures
        self.device = device
        self.forms: dict[Body, Form | None] = {}
        self.units: dict[tuple[Body, tuple[int, ...]], Facts] = {}
        self.prices: dict[tuple[Body, tuple[int, ...], tuple[int, ...]], float] = {}

    def form(self, body: Body) -> Form | None:
        """The form of a body; None where no kernel computes it."""
        try:
            return self.forms[body]
        except KeyError:
            found = self.forms[body] = classify(body, self.signatures)
            return found

    def facts(self, body: Body, form: Form, types: Mapping[int, TensorType]) -> Facts:
        """What the kernel of a body that reads what `types` names says of a matrix unit."""
        if form.heavy is None or not self.device.matrix_rates:
            return ()
        key = body, tuple(types)
        facts = self.units.get(key)
        if facts is None:
            facts = unit_facts(body, form, types, self.signatures, self.device)
            self.units[key] = facts
        return facts

    def price(
        self, body: Body, form: Form, results: tuple[int, ...], types: Mapping[int, TensorType]
    ) -> float:
        """Seconds for the kernel of a body that writes `results` and reads what `types` names."""
        key = body, results, tuple(types)
        price = self.prices.get(key)
        if price is None:
            facts = self.facts(body, form, types)
            price = self.prices[key] = price_kernel(
                body, form, results, types, self.signatures, self.device, facts
            )
        return price
