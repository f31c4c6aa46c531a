"""Decompositions: a composite operation as a block of simpler operations, which is its meaning.

In: an operation, or its spec with operand types and attributes. Out: a block whose arguments are
the operands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from xdsl.ir import Attribute, Block, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import OperationSpec, TensorOp


@dataclass(frozen=True)
class Decomposition:
    """A block that computes an operation, one step simpler, and the values that are its results.

    The block is shared by all operations of one signature: read it, clone it, never change it.
    """

    block: Block
    results: tuple[SSAValue, ...]


def decomposition_of(op: TensorOp) -> Decomposition:
    """One step of an operation's decomposition. ValueError for a core operation, which has none."""
    operand_types = tuple(operand.type for operand in op.operands)
    return _decompose(op.spec, operand_types, tuple(op.properties.items()))


@lru_cache(maxsize=4096)
def _decompose(
    spec: OperationSpec,
    operand_types: Sequence[Attribute],
    properties: Sequence[tuple[str, Attribute]],
) -> Decomposition:
    stored = dict(properties)
    values = {
        item.name: item.kind.decode(stored[item.name]) if item.name in stored else None
        for item in spec.attributes
    }
    return decompose_signature(spec, operand_types, values)


def decompose_signature(
    spec: OperationSpec, operand_types: Sequence[Attribute], attributes: Mapping[str, Any]
) -> Decomposition:
    """The decomposition for operand types and canonical attributes, without an operation."""
    if spec.decompose is None:
        raise ValueError(f"{spec.name} is a core operation: it has no decomposition")
    block = Block(arg_types=operand_types)
    emitter = Emitter(block.add_op)
    results = spec.decompose(emitter, *spec.split_operands(list(block.args)), **attributes)
    listing = (results,) if isinstance(results, SSAValue) else tuple(results)
    return Decomposition(block, listing)
