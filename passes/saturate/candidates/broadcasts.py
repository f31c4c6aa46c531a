"""Values that their one reader broadcasts: whether it may pay to have them in memory.

In: a view and a device; the cuts of such a value. Out: its *repeats*, how many times more often
than once an element a kernel evaluates it at most that computes it for its reader; and whether this
may cost more than to write it. Ten `tanh` of a column that a matrix then adds are evaluated once
for each element of the matrix.

Let v be the value, d a kernel that writes it, c a kernel that reads it, and c∘d the kernel that
computes v in c. Then c∘d reads and writes no more than c and d together, takes a launch less, and
computes what both do, the body of d so many times more as v has repeats. So where

    repeats × seconds of computing in d ≤ seconds of a launch

c∘d costs no more than c and d, whatever c is, and no candidate that reads v is needed. That leaves
out of account that a cache may hold what c and d move, but not what c∘d does.

Only pointwise d count: a kernel computes what a reduction or a product decides once. A value that
its one reader takes at most once an element has no repeats: the reader's result, which has no more
elements, is written in its place.
"""

from collections.abc import Mapping, Sequence

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.forms import HELD_WHOLE
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.shapes import element_count
from mgn.passes.saturate.candidates.cuts import Cut, Traits
from mgn.passes.saturate.egraph.view import Signature, View
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.prices import measure_kernel
from mgn.passes.saturate.prices.scheduled import schedule_of


def repeats_of(view: View, device: Device, readers: Mapping[int, int]) -> dict[int, float]:
    """The repeats of each class that has some; `readers` is how many each has."""
    count = {key: element_count(value.type.get_shape()) for key, value in view.classes.items()}
    evaluated = {key: float(elements) for key, elements in count.items()}
    broadcast = set[int]()
    for value in reversed(view.classes.values()):
        for member in value.members:
            signature = view.signatures[member.signature]
            node = value.key, member.signature, member.operands
            demands = _demands(view, node, evaluated[value.key], device)
            for operand, size, demand in zip(
                member.operands, signature.operand_sizes, demands, strict=True
            ):
                evaluated[operand] = max(evaluated[operand], demand)
                if 1 < size < signature.size:
                    broadcast.add(operand)
    found: dict[int, float] = {}
    for key in broadcast:
        value = view.classes[key]
        if value.leaf is None and readers[key] == 1 and not value.is_output:
            found[key] = evaluated[key] / count[key] - 1.0
    return found


GONE_OVER = tuple(
    name for kind in ("attention", "attention_gradient", "recurrence") for name in HELD_WHOLE[kind]
)
"""Composites whose schedule says how often their operands are gone over."""


def _demands(view: View, node: BodyNode, evaluations: float, device: Device) -> Sequence[float]:
    """How often a kernel that evaluates an e-node so many times asks for each operand at most."""
    _, number, operands = node
    signature = view.signatures[number]
    sizes = [float(size) for size in signature.operand_sizes]
    if signature.kind is Kind.CONTRACTION or signature.name in GONE_OVER:
        form = classify([node], view.signatures)
        types = {operand: view.classes[operand].type for operand in operands}
        schedule = form and schedule_of([node], form, types, view.signatures, device, ())
        passes = (schedule.passes if schedule else ()) or (1.0,) * len(sizes)
        return [size * count for size, count in zip(sizes, passes, strict=True)]
    if signature.kind in (
        Kind.REDUCTION,
        Kind.SCAN,
        Kind.SCATTER,
        Kind.ORDER,
    ) or signature.name in ("concat", "pad"):
        return sizes
    return [evaluations if size > 1.0 else 1.0 for size in sizes]


def costs_a_launch(
    cuts: Sequence[Cut],
    traits: Sequence[Traits],
    signatures: Sequence[Signature],
    device: Device,
) -> bool:
    """Whether the repeats of a class may cost more than a launch, computed by one of its cuts."""
    repeats = traits[0].repeats
    if not repeats:
        return False
    for cut in cuts:
        if cut.form.kind is KernelKind.POINTWISE:
            given = cut.known.body, cut.form, cut.results, cut.types(traits), signatures, device
            work = measure_kernel(*given)
            if repeats * work.seconds > device.launch_cost:
                return True
    return False
