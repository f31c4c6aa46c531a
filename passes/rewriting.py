"""The one walker through which passes rewrite operations: what replaces an operation has its
location.

In: a block, and a function from an operation to the values that replace its results, or None to
keep it. Out: the block rewritten in place, front to back, until nothing in it is rewritten any
more.

    def drop_identity(b: Emitter, op: Operation) -> Sequence[SSAValue] | None:
        return [op.operands[0]] if is_tensor_op(op, "identity") else None

    rewrite_block(graph.block, drop_identity)
"""

from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.traits import is_side_effect_free

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.decompose import Decomposition

Rewrite = Callable[[Emitter, Operation], Sequence[SSAValue] | None]


def rewrite_block(block: Block, rewrite: Rewrite) -> bool:
    """Rewrites each operation, operands before users, and new operations again. True where any was.

    `rewrite` emits new operations through the emitter: they are put before the operation it looks
    at. An operation that is replaced is erased; others that lose their users stay for `erase_dead`.
    """
    changed = False
    op = block.first_op
    while op is not None:
        before = op.prev_op
        values = rewrite(emitter_before(op), op)
        if values is None:
            op = op.next_op
            continue
        changed = True
        replace(op, values)
        op = block.first_op if before is None else before.next_op
    return changed


def emitter_before(op: Operation) -> Emitter:
    """An emitter of operations in front of `op`, at its location."""
    block = op.parent
    assert block is not None

    def insert(new: Operation) -> None:
        block.insert_op_before(new, op)

    return Emitter(insert, op.location)


def replace(op: Operation, values: Sequence[SSAValue]) -> None:
    """Puts values in the place of an operation's results, and erases it."""
    for result, value in zip(op.results, values, strict=True):
        result.replace_all_uses_with(value)
    Rewriter.erase_op(op)


def inline(
    b: Emitter, expansion: Decomposition, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """Copies a decomposition's operations through an emitter; the values of its results."""
    return inline_block(b, expansion.block, operands, expansion.results)


def inline_block(
    b: Emitter, block: Block, operands: Sequence[SSAValue], results: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """Copies a block's operations, but not its terminator, with `operands` for its arguments.

    Gives the copies of `results`.
    """
    mapping: dict[SSAValue, SSAValue] = dict(zip(block.args, operands, strict=True))
    for op in block.ops:
        if op.results:
            _copy(b, op, mapping)
    return [mapping[value] for value in results]


def _copy(b: Emitter, op: Operation, mapping: dict[SSAValue, SSAValue]) -> None:
    copy = type(op).create(
        operands=_mapped(op.operands, mapping),
        result_types=op.result_types,
        properties=dict(op.properties),
        attributes=dict(op.attributes),
    )
    copy.location = b.location if b.location is not None else op.location
    b.insert(copy)
    for old, new in zip(op.results, copy.results, strict=True):
        new.name_hint = old.name_hint
        mapping[old] = new


def _mapped(values: Sequence[SSAValue], mapping: Mapping[SSAValue, SSAValue]) -> Sequence[SSAValue]:
    return [mapping[value] for value in values]


def erase_dead(block: Block) -> bool:
    """Erases operations without effects whose results nobody uses. True where there was one."""
    changed = False
    op = block.last_op
    while op is not None:
        before = op.prev_op
        unused = bool(op.results) and not any(result.first_use for result in op.results)
        if unused and is_side_effect_free(op):
            Rewriter.erase_op(op)
            changed = True
        op = before
    return changed
