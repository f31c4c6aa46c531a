"""Several kernels in the place of one: each computes some values of the one kernel's body.

In: a fusion.kernel, and an `Arrangement`, which says which kernels take its place. Out: these
kernels. Each computes values of the body, or partial results, or copies of operands. It reads the
inputs of the one kernel, and the results of the new kernels before it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.ir import Block, Operation, Region, SSAValue

from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp, KernelKind, ScheduleAttr
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.types import ElementType, element_of

Finish = Callable[[Emitter, list[SSAValue]], list[SSAValue]]


@dataclass(frozen=True)
class Made:
    """An operation of the body that is replaced by others. `make` writes them: it gets the
    `operands`, which are values of the body, and then the `sources`, which are values in memory.
    """

    op: TensorOp
    sources: Sequence[SSAValue]
    make: Callable[[Emitter, list[SSAValue]], SSAValue]
    operands: Sequence[SSAValue] = ()


class KernelPieces:
    """Writes the kernels that take the place of one; `known` holds the values that are in memory.

    `clones` and `made` map values of the new kernels to values of the body: `clones` the results of
    the same operation, `made` those of operations that replace one.
    """

    def __init__(self, fused: FusedKernelOp) -> None:
        self.fused = fused
        self.known: dict[SSAValue, SSAValue] = dict(
            zip(fused.block.args, fused.inputs, strict=True)
        )
        self.kernels: list[FusedKernelOp] = []
        self.clones: dict[SSAValue, SSAValue] = {}
        self.made: dict[SSAValue, SSAValue] = {}

    @property
    def product(self) -> TensorOp:
        """The one product of the body."""
        return self.only(Kind.CONTRACTION)

    def has(self, value: SSAValue) -> bool:
        """Whether a value is one of the body's."""
        owner = value.owner
        block = owner if isinstance(owner, Block) else owner.parent
        return block is self.fused.block

    def only(self, kind: Kind) -> TensorOp:
        """The one operation of a kind in the body."""
        (found,) = (
            op for op in self.fused.block.ops if isinstance(op, TensorOp) and op.spec.kind is kind
        )
        return found

    def add(
        self,
        kind: KernelKind,
        wanted: Sequence[SSAValue],
        made: Sequence[Made] = (),
        finish: Finish = lambda _, values: values,
        facts: Mapping[str, int | str] | None = None,
        sources: Sequence[SSAValue] = (),
    ) -> list[SSAValue]:
        """Adds a kernel that computes values of the body; `finish` makes its results of them, and
        of the `sources`, which are values in memory.

        `facts` are what its schedule has to know of it.
        """
        instead = {item.op: item for item in made}
        needed, inputs = self._needed(wanted, instead)
        outer = [self.known[value] for value in inputs]
        outer += [value for item in made for value in item.sources]
        outer += sources
        block = Block(arg_types=[value.type for value in outer])
        emitter = Emitter(block.add_op)
        values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=False))
        rest = iter(block.args[len(inputs) :])
        replaced = {item.op: [next(rest) for _ in item.sources] for item in made}
        for op in self.fused.block.ops:
            if op not in needed:
                continue
            if op in instead and isinstance(op, TensorOp):
                given = [values[value] for value in instead[op].operands]
                values[op.results[0]] = instead[op].make(emitter, [*given, *replaced[op]])
                self.made[values[op.results[0]]] = op.results[0]
                continue
            clone = op.clone(values)
            block.add_op(clone)
            self.clones.update(zip(clone.results, op.results, strict=True))
        results = finish(emitter, [*(values[value] for value in wanted), *rest])
        return self._place(kind, outer, block, results, facts)

    def follow(
        self, kind: KernelKind, sources: Sequence[SSAValue], finish: Finish
    ) -> list[SSAValue]:
        """Adds a kernel that computes something of what kernels before it wrote."""
        block = Block(arg_types=[value.type for value in sources])
        results = finish(Emitter(block.add_op), list(block.args))
        return self._place(kind, sources, block, results, None)

    def _place(
        self,
        kind: KernelKind,
        outer: Sequence[SSAValue],
        block: Block,
        results: Sequence[SSAValue],
        facts: Mapping[str, int | str] | None,
    ) -> list[SSAValue]:
        """Ends a kernel's body, and puts the kernel before the one."""
        block.add_op(FusionReturnOp(results))
        kernel = FusedKernelOp(kind, outer, [value.type for value in results], Region(block))
        kernel.location = self.fused.location
        kernel.arranged = ScheduleAttr.of(**facts) if facts else None
        assert self.fused.parent is not None
        self.fused.parent.insert_op_before(kernel, self.fused)
        self.kernels.append(kernel)
        return list(kernel.outputs)

    def finish(
        self,
        kind: KernelKind,
        made: Sequence[Made] = (),
        facts: Mapping[str, int | str] | None = None,
    ) -> None:
        """Adds the last kernel: it computes the results of the one that are not written yet."""
        wanted = [value for value in dict.fromkeys(self.fused.written) if value not in self.known]
        results = self.add(kind, wanted, made, facts=facts)
        self.known.update(zip(wanted, results, strict=True))

    def replace(self) -> list[FusedKernelOp]:
        """Puts the kernels in the place of the one. Its users read their results."""
        for old, value in zip(self.fused.outputs, self.fused.written, strict=True):
            old.replace_all_uses_with(self.known[value])
        self.fused.detach()
        self.fused.erase()
        return self.kernels

    def _needed(
        self, wanted: Sequence[SSAValue], instead: Mapping[TensorOp, Made]
    ) -> tuple[set[Operation], list[SSAValue]]:
        needed: set[Operation] = set()
        inputs: dict[SSAValue, None] = {}
        pending = list(wanted)
        while pending:
            value = pending.pop()
            owner = value.owner
            if value in self.known:
                inputs[value] = None
            elif isinstance(owner, Operation) and owner not in needed:
                needed.add(owner)
                made = instead.get(owner) if isinstance(owner, TensorOp) else None
                pending += owner.operands if made is None else made.operands
        return needed, [value for value in self.known if value in inputs]


def as_element(b: Emitter, value: SSAValue, element: ElementType) -> SSAValue:
    """A value in an element type: itself where it has that."""
    return value if element_of(value.type) is element else b.cast(value, element.name)


class Arrangement(Protocol):
    """How several kernels compute what one kernel could."""

    @property
    def text(self) -> str:
        """What it is, for reports."""
        ...

    def write(self, pieces: KernelPieces) -> None:
        """Adds its kernels."""
        ...
