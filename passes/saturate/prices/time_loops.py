"""Which time loops are never unrolled: the kernel that walks all steps costs less than the launches
of any other kernels for them.

In: an operation, a device. Out: whether its decomposition need not be looked at. Of a loop of 1000
steps it is 40,000 operations, which take most of a minute to choose kernels for.
"""

from mgn.dialects.fusion.forms import RECURRENCE
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.operations.recurrences.recurrence import CELLS
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.encoding.encode import tensor_type
from mgn.passes.saturate.prices.forms import classify
from mgn.passes.saturate.prices.kernel_facts import price_alone


def is_never_unrolled(op: TensorOp, device: Device) -> bool:
    """Whether a recurrence costs less as it stands than its steps cost in launches. Each step waits
    for the one before: its product is a kernel, and so is what all gates meet in, where a step has
    several, since they are columns of that product. Two steps are not counted. The first one may
    take no launch: it has no product where its state is zeros, and what is left of it may be part
    of the next one's kernel. And kernels of steps write what is read of a loop where it is wanted,
    while another kernel may have to take it from what the loop writes.
    """
    if op.spec.name != RECURRENCE:
        return False
    (result,), operands = map(tensor_type, op.results), tuple(map(tensor_type, op.operands))
    signature = Signature(op.spec.name, tuple(sorted(op.properties.items())), result, operands)
    names = tuple(range(1, 1 + len(operands)))
    body = [(0, 0, names)]
    form = classify(body, [signature])
    if form is None:
        return False
    leaves = dict(zip(names, operands, strict=True))
    price = price_alone(body, form, [0], leaves, [signature], device)
    launches = 2 if CELLS[op.values["cell"]].gates > 1 else 1
    counted = operands[0].get_shape()[0] - 2
    return price <= counted * launches * device.launch_cost
