"""The facts that a kernel has beside its body, because its price or its template counts on them.

In: a legal body, its results and leaves, a `Device`. Out: the input type of a matrix unit, and
whether the maxima of rows only stabilise exponentials. A candidate has these facts already: nothing
is found out about a body once it is chosen.

The operands of a product that are rounded may be multiplied without the unit as well: the terms
are the same. So the unit is taken where the kernel is cheaper with it. An attention takes it in any
case.
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.stabilising_maximum import (
    MAXIMUM,
    STABILISED,
    STABILISES,
    Step,
    maxima_only_stabilise,
)
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import Facts, Form
from mgn.passes.saturate.prices.matrix_price import unit_facts
from mgn.passes.saturate.prices.prices import price_kernel
from mgn.passes.schedules.core.figures import MATRIX


def may_say(
    body: Sequence[BodyNode], form: Form, signatures: Sequence[Signature], device: Device
) -> bool:
    """Whether a kernel of a body says anything, whatever it writes and reads."""
    if form.kind is KernelKind.REDUCTION:
        return STABILISED.issubset([signatures[number].name for _, number, _ in body])
    return form.kind is not KernelKind.POINTWISE and bool(form.reduced or device.matrix_rates)


def kernel_facts(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> Facts:
    """All that a kernel of a body may say by itself, in no arrangement."""
    if not may_say(body, form, signatures, device):
        return ()
    if form.kind is KernelKind.REDUCTION:
        return maximum_facts(body, results, signatures)
    return unit_facts(body, form, leaf_types, signatures, device)


def priced_facts(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
    arranged: Facts = (),
) -> tuple[float, Facts]:
    """The least price of a kernel of a body, `arranged` so, and what it then says."""
    own = kernel_facts(body, form, results, leaf_types, signatures, device)
    ways = [(*arranged, *own)]
    if form.kind is KernelKind.CONTRACTION and own and not arranged:
        ways.append(tuple([fact for fact in own if fact[0] != MATRIX]))
    found = [
        (price_kernel(body, form, results, leaf_types, signatures, device, facts), facts)
        for facts in ways
    ]
    return min(found, key=lambda item: item[0])


def price_alone(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> float:
    """The price of a kernel of no arrangement."""
    return priced_facts(body, form, results, leaf_types, signatures, device)[0]


def maximum_facts(
    body: Sequence[BodyNode], results: Sequence[int], signatures: Sequence[Signature]
) -> Facts:
    """What a kernel that reduces rows says of their maxima."""
    steps = (Step(name, signatures[number].name, operands) for name, number, operands in body)
    return ((MAXIMUM, STABILISES),) if maxima_only_stabilise(steps, results) else ()
