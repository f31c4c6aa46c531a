"""Results of chosen kernels lie in half precision where that keeps every number.

In: a graph of kernels, and the type of two bytes that its activations are stored in. Out: the same
graph. A kernel writes a result of f32 in two bytes in two cases:

- The result is movement of a cast from that type, so that the kernel has rounded it.
- Every reader casts the result to that type, perhaps after movement.

Extraction may not see this. The e-graph has one class for the narrow numbers and one for the wide
ones. In a price, computing may hide moving. So of two kernels at one price, the choice may be the
kernel that writes more bytes.
"""

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.fusion.forms import MOVED
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.parameter_only import parameter_only
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.types import ELEMENT_TYPES, element_of, tensor
from mgn.passes.rewriting import emitter_before, erase_dead

WIDE = "f32"


def narrow_results(graph: GraphOp, half: StringAttr) -> None:
    """Rewrites the kernels of a graph so that results lie in a type of two bytes where they may."""
    narrower = _Narrower(half.data)
    prepared = parameter_only(graph)
    op: Operation | None = graph.block.first_op
    while op is not None:
        if isinstance(op, FusedKernelOp) and not any(item in prepared for item in op.outputs):
            for number in range(len(op.outputs)):
                op = narrower.narrowed(op, number)
        op = op.next_op


class _Narrower:
    """Rewrites kernels for a type of two bytes."""

    def __init__(self, half: str) -> None:
        self.half = half

    def narrowed(self, kernel: FusedKernelOp, number: int) -> FusedKernelOp:
        """The kernel that takes a kernel's place: it writes a result in two bytes, and its readers
        take the result so. The kernel itself where no template can write one of these kernels.
        """
        result = kernel.outputs[number]
        users = [use.operation for use in result.uses]
        readers = [op for op in users if isinstance(op, FusedKernelOp)]
        if _element(result) != WIDE or not shape_of(result) or not readers:
            return kernel
        if len(set(readers)) < len(users):
            return kernel
        places = [list(reader.operands).index(result) for reader in readers]
        arguments = [item.block.args[at] for item, at in zip(readers, places, strict=True)]
        if not self._is_widened(kernel.written[number]) and not all(
            map(self._is_rounded, arguments)
        ):
            return kernel
        writer, copies = kernel.clone(), [reader.clone() for reader in readers]
        self._write(writer, number)
        for copy, at in zip(copies, places, strict=True):
            self._read(copy, at)
            copy.operands[at] = writer.outputs[number]
        pairs = [*zip(readers, copies, strict=True), (kernel, writer)]
        if all(_is_kernel(made) for _, made in pairs):
            for old, made in pairs:
                _put(made, old)
            return writer
        for _, made in pairs:
            made.erase()
        return kernel

    def _is_widened(self, value: SSAValue) -> bool:
        """Whether a value is movement of numbers of two bytes that a cast widens."""
        owner = value.owner
        while isinstance(owner, TensorOp) and owner.spec.name in MOVED:
            owner = owner.operands[0].owner
        return isinstance(owner, TensorOp) and self._widens(owner)

    def _widens(self, op: TensorOp) -> bool:
        return op.spec.name == "cast" and _element(op.operands[0]) == self.half

    def _is_rounded(self, value: SSAValue) -> bool:
        """Whether all that reads a value is movement into casts to two bytes."""
        for use in value.uses:
            op = use.operation
            if not isinstance(op, TensorOp):
                return False
            if op.spec.name == "cast" and _element(op.results[0]) == self.half:
                continue
            if op.spec.name not in MOVED or not self._is_rounded(op.results[0]):
                return False
        return True

    def _write(self, kernel: FusedKernelOp, number: int) -> None:
        """Has a kernel write a result in two bytes."""
        last = kernel.block.last_op
        assert last is not None, "a kernel returns"
        narrow = self._narrow(emitter_before(last), last.operands[number])
        last.operands[number] = narrow
        Rewriter.replace_value_with_new_type(kernel.outputs[number], narrow.type)
        erase_dead(kernel.block)

    def _narrow(self, b: Emitter, value: SSAValue) -> SSAValue:
        """A value in two bytes: what it was widened from, where that is known."""
        if not self._is_widened(value):
            return b.cast(value, ELEMENT_TYPES[self.half])
        op = value.owner
        assert isinstance(op, TensorOp)
        if self._widens(op):
            return op.operands[0]
        return _moved(b, op, self._narrow(b, op.operands[0]))

    def _read(self, kernel: FusedKernelOp, place: int) -> None:
        """Has a kernel take an argument in two bytes, and widen it where it computes with it."""
        block = kernel.block
        first = block.first_op
        assert first is not None, "a kernel returns"
        wide = block.args[place]
        narrow = block.insert_arg(tensor(self.half, shape_of(wide)), place)
        widened = emitter_before(first).cast(narrow, ELEMENT_TYPES[WIDE])
        wide.replace_all_uses_with(widened)
        block.erase_arg(wide)
        self._shorten(widened, narrow)
        erase_dead(block)

    def _shorten(self, wide: SSAValue, narrow: SSAValue) -> None:
        """Replaces casts of movement of the wide value by movement of the narrow one."""
        for use in list(wide.uses):
            op = use.operation
            if not isinstance(op, TensorOp):
                continue
            if op.spec.name == "cast" and _element(op.results[0]) == self.half:
                op.results[0].replace_all_uses_with(narrow)
            elif op.spec.name in MOVED:
                self._shorten(op.results[0], _moved(emitter_before(op), op, narrow))


def _moved(b: Emitter, op: TensorOp, value: SSAValue) -> SSAValue:
    """The movement of an operation, of another value."""
    moved = b.call(op.spec.name, value, **op.values)
    assert isinstance(moved, SSAValue)
    return moved


def _is_kernel(op: FusedKernelOp) -> bool:
    """Whether a kernel has a form that templates can write."""
    try:
        op.verify_()
    except VerifyException:
        return False
    return True


def _put(made: FusedKernelOp, old: FusedKernelOp) -> None:
    """Puts a kernel in another one's place. A result has the type of the old one, or no readers."""
    Rewriter.insert_op(made, InsertPoint.before(old))
    for before, after in zip(old.outputs, made.outputs, strict=True):
        if before.type == after.type:
            before.replace_all_uses_with(after)
    Rewriter.erase_op(old)


def _element(value: SSAValue) -> str:
    return element_of(value.type).name
