"""When two kernels are the same: a key of what they compute and how."""

from collections.abc import Hashable
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.fusion import FusedKernelOp


def structure(fused: FusedKernelOp) -> Hashable:
    """A key that two kernels share if one function serves both."""
    numbers: dict[SSAValue, int] = {}
    parts: list[Any] = [fused.kind.data, fused.schedule or fused.arranged]
    for argument in fused.block.args:
        numbers[argument] = len(numbers)
        parts.append(argument.type)
    for op in fused.block.ops:
        parts.append(op.name)
        parts.extend(numbers[operand] for operand in op.operands)
        parts.extend(op.properties.items())
        for result in op.results:
            numbers[result] = len(numbers)
            parts.append(result.type)
    return tuple(parts)
