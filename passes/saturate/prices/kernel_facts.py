"""What a kernel says beside its body, because its price or its template counts on it.

In: a legal body, what it writes, its leaves, a `Device`. Out: as what a matrix unit is to multiply,
and whether the largest elements of rows only shift exponentials. A kernel says it from its
candidate on: nothing is found out about a body once it is chosen.
"""

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType

from mgn.dialects.fusion import KernelKind
from mgn.dialects.kernel.device import Device
from mgn.dialects.shifts import LARGEST, SHIFTING, SHIFTS, Step, largest_only_shift
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.forms import BodyNode, Facts, Form
from mgn.passes.saturate.prices.matrix_price import unit_facts


def kernel_facts(
    body: Sequence[BodyNode],
    form: Form,
    results: Sequence[int],
    leaf_types: Mapping[int, TensorType],
    signatures: Sequence[Signature],
    device: Device,
) -> Facts:
    """All that a kernel of a body says by itself, in no arrangement."""
    if form.kind is KernelKind.REDUCTION:
        return shift_facts(body, results, signatures)
    return unit_facts(body, form, leaf_types, signatures, device)


def shift_facts(
    body: Sequence[BodyNode], results: Sequence[int], signatures: Sequence[Signature]
) -> Facts:
    """What a kernel that reduces rows says of their largest elements."""
    if not SHIFTING.issubset([signatures[number].name for _, number, _ in body]):
        return ()
    steps = (Step(name, signatures[number].name, operands) for name, number, operands in body)
    return ((LARGEST, SHIFTS),) if largest_only_shift(steps, results) else ()
