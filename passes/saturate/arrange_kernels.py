"""`arrange-kernels`: kernels not of the e-graph's choosing, arranged as prices say.

Before:
    %y = fusion.kernel contraction (%a = %x : tensor<64x20000xf32>, %b = %w : …) -> (…) {
      %0 = mgn.matmul(%a, %b) : (…) -> tensor<64x1000xf32>
      fusion.return %0 : tensor<64x1000xf32>
    }
After:
    %p = fusion.kernel contraction (…) -> (tensor<40x64x1000xf32>) { … mgn.matmul … }
    %y = fusion.kernel reduction (%a = %p : …) -> (tensor<64x1000xf32>) { … mgn.sum … }

Kernels whose price counts on the device's matrix unit say so: `arranged {matrix = "tf32"}`. Those
that say something already are left as they are.

`saturate` decides on arrangements together with everything else, by the same prices; this pass is
for fusion programs written by hand.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import Device
from mgn.dialects.mgn.operation import TensorOp
from mgn.passes.arrangements.kernel_pieces import KernelPieces
from mgn.passes.saturate.candidates.arranging import Arranger, NewValues
from mgn.passes.saturate.candidates.candidates import Template
from mgn.passes.saturate.candidates.cuts import Traits
from mgn.passes.saturate.egraph.view import Signature, View
from mgn.passes.saturate.prices.bodies import BodyNode
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.kernel_facts import priced_facts


class ArrangeKernels(ModulePass):
    """Arranges every fusion.kernel that has no schedule and says of no arrangement or unit."""

    name = "arrange-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = Device.of(op)
        for found in list(op.walk()):
            if isinstance(found, FusedKernelOp) and found.schedule is None:
                arrange_kernel(found, device)


def arrange_kernel(fused: FusedKernelOp, device: Device) -> list[FusedKernelOp]:
    """The kernels that take a kernel's place: itself, or those of its cheapest arrangement."""
    signatures: list[Signature] = []
    template, values = template_of(fused, device, signatures)
    if fused.arranged is not None or template is None:
        return [fused]
    ways = Arranger(View({}, [], signatures), device).ways(template, values)
    if not ways or ways[0].price >= template.price:
        _say(fused, template)
        return [fused]
    pieces = KernelPieces(fused)
    ways[0].arrangement.write(pieces)
    for kernel, piece in zip(pieces.kernels, ways[0].pieces, strict=True):
        _say(kernel, piece)
    return pieces.replace()


def _say(fused: FusedKernelOp, template: Template) -> None:
    """Has a kernel say what it is priced for."""
    fused.arranged = ScheduleAttr.of(**dict(template.facts)) if template.facts else None


def template_of(
    fused: FusedKernelOp, device: Device, signatures: list[Signature]
) -> tuple[Template | None, NewValues]:
    """A kernel as the e-graph would see it; None where it knows no such form."""
    names: dict[SSAValue, int] = {}
    traits: list[Traits] = []
    body: list[BodyNode] = []

    def enter(value: SSAValue, in_memory: bool, inline: bool = False) -> int:
        names[value] = len(traits)
        traits.append(Traits(value.type, in_memory, inline, 1, False))  # type: ignore
        return names[value]

    reads = tuple(enter(argument, True) for argument in fused.block.args)
    for op in fused.block.ops:
        if isinstance(op, TensorOp):
            operands = tuple(names[operand] for operand in op.operands)
            types = tuple(operand.type for operand in op.operands)
            properties = tuple(op.properties.items())
            signature = Signature(op.spec.name, properties, op.results[0].type, types)  # type: ignore
            body.append((enter(op.results[0], False), len(signatures), operands))
            signatures.append(signature)
        elif op.results:
            enter(op.results[0], False, inline=True)
    values = NewValues(traits)
    form = classify(body, signatures)
    if form is None:
        return None, values
    results = tuple(names[value] for value in fused.written)
    types = {name: traits[name].type for name in reads}
    price, facts = priced_facts(body, form, results, types, signatures, device)
    return Template(tuple(body), form, results, reads, (), price, facts), values
