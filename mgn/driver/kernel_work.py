"""What a kernel has to do at least: bytes to and from memory, and arithmetic operations.

In: a `fusion.kernel`, scheduled or not. Out: its `Work`, the measure of how well a run of it used
the device. Every input counts once, an operand that is read at indices only as far as it is asked
for; a multiplication and an addition are two operations, an elementary function is one.
"""

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.elements.masks import PICK
from mgn.dialects.types import element_of

RECURRENCE, ATTENTION = "recurrence", "attention"


@dataclass(frozen=True)
class Work:
    """The least that a kernel moves and computes, in which element type it computes, and what its
    product's operands are rounded to where it runs on the matrix unit.
    """

    bytes: int
    operations: int
    element: str
    unit: str = ""

    def roofline_seconds(self, device: Device) -> float:
        """The time that a device's arithmetic allows, or its bandwidth, that of its cache where all
        fits into it. What a core has in a cache of its own can take less.
        """
        rate = device.matrix_rates.get(self.unit) or device.rate(self.element)
        return max(device.seconds_to_move(self.bytes), self.operations / rate)


def kernel_work(kernel: FusedKernelOp) -> Work:
    """The work of a kernel."""
    moved = sum(_input_bytes(argument) for argument in kernel.block.args)
    moved += sum(_size(value.type) * _element_bytes(value.type) for value in kernel.outputs)
    operations = sum(_operations(op) for op in kernel.block.ops)
    written = element_of(kernel.outputs[0].type)
    computed = [
        element_of(op.results[0].type)
        for op in kernel.block.ops
        if isinstance(op, TensorOp) and element_of(op.results[0].type).is_float
    ]
    element = computed[-1].name if computed else written.name
    return Work(moved, operations, element, matrix_unit_of(kernel))


def matrix_unit_of(kernel: FusedKernelOp) -> str:
    """What the matrix unit multiplies, if the kernel's schedule says that it does; else nothing."""
    return "" if kernel.schedule is None else str(kernel.schedule.values.get("matrix", ""))


def _input_bytes(argument: SSAValue) -> int:
    """The bytes of an input, or of what is gathered from it where that is all its use; none of one
    that is read in the place of another.
    """
    whole = _size(argument.type)
    uses = list(argument.uses)
    if uses and all(_is_rarely_picked(use.operation, use.index) for use in uses):
        return 0
    if uses and all(_is_gathered(use.operation, use.index) for use in uses):
        asked = sum(_size(use.operation.results[0].type) for use in uses)
        whole = min(whole, asked)
    return whole * _element_bytes(argument.type)


def _is_gathered(op: Operation, index: int) -> bool:
    return isinstance(op, TensorOp) and op.spec.kind is Kind.INDEXING and _data_index(op) == index


def _is_rarely_picked(op: Operation, index: int) -> bool:
    return isinstance(op, TensorOp) and op.spec.name == PICK and index == 2


def _data_index(op: TensorOp) -> int:
    return 1 if op.spec.name == "embedding" else 0


def _operations(op: Operation) -> int:
    if not isinstance(op, TensorOp):
        return 0
    if op.spec.name == ATTENTION:
        return _attention_operations(op)
    if op.spec.name == RECURRENCE:
        return 2 * _size(op.operands[0].type) * op.operands[1].type.get_shape()[1]  # pyright: ignore
    match op.spec.kind:
        case Kind.ELEMENTWISE:
            return _size(op.results[0].type)
        case Kind.REDUCTION | Kind.SCAN | Kind.ORDER:
            return _size(op.operands[0].type)
        case Kind.SCATTER:
            names = [operand.name for operand in op.spec.operands]
            return _size(op.operands[names.index("src")].type)
        case Kind.CONTRACTION:
            return 2 * _size(op.results[0].type) * _inner(op)
        case _:
            return 0


def _attention_operations(op: TensorOp) -> int:
    """Two products for each score that is seen."""
    heads, causal, window = (op.values[name] for name in ("heads", "causal", "window"))
    query, key, value = (operand.type.get_shape() for operand in op.operands[:3])  # pyright: ignore
    rows, keys = query[-2], key[-2]
    seen = 0
    for row in range(rows):
        last = row + keys - rows
        end = min(max(last + 1, 0), keys) if causal else keys
        begin = max(last - window + 1, 0) if window else 0
        seen += max(end - begin, 0)
    columns = query[-1] // heads + value[-1] // op.values["kv_heads"]
    batch = _size(op.results[0].type) // (rows * (value[-1] // op.values["kv_heads"]) or 1)
    return 2 * seen * batch * columns


def _inner(op: TensorOp) -> int:
    """The size of the axis that a matrix product sums over."""
    type = op.operands[0].type
    assert isinstance(type, TensorType)
    shape = list(type.get_shape())
    return shape[-2] if op.values["transpose_a"] and len(shape) > 1 else shape[-1]


def _size(type: Attribute) -> int:
    assert isinstance(type, TensorType)
    return math.prod(type.get_shape())


def _element_bytes(type: Attribute) -> int:
    return element_of(type).bytes
