"""The host's program: which device buffers there are, what lies where, which kernels run in order.

In: what `plan-memory` decides. Out: what the runtime records once and replays.

    plan.program @mlp arena 4096 {
      %x = plan.input "x" tensor<32x64xf32> : memref<2048xf32>
      %w = plan.param @"layers.0.w" tensor<16x64xf32> : memref<1024xf32>
      %c = plan.constant dense<0.5> : tensor<16xf32> to memref<16xf32>
      %y = plan.view offset 256 : memref<512xf32>
      plan.launch @kernel_3(%x, %w, %c, %y)
      plan.output "logits" %y tensor<32x16xf32>
    }

Inputs, parameters and constants are buffers of their own that no launch writes; everything else
is a view of the arena. The verifier of `plan.program` follows the launches in order and refuses a
read of what is not, or no longer, there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import (
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsolatedFromAbove, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.buffers import ALIGNMENT, buffer_type, in_place_pairs
from mgn.dialects.hazards import Extent, Hazard, Memory, Step, check_steps
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.kernel.types import Access
from mgn.dialects.plan_buffers import ArenaProgram, ConstantOp, InputOp, ParamOp, ViewOp


def _parse_defined(parser: Parser) -> SSAValue:
    """A buffer by its name alone; it must stand above, so its type need not be written again."""
    operand = parser.parse_unresolved_operand()
    values = parser.ssa_values.get(operand.operand_name)
    if values is None or operand.index >= len(values):
        parser.raise_error("a buffer must be defined above its use", operand.span)
    return values[operand.index]


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Runs a kernel on all of its arguments, in their order: `plan.launch @k(%x, %w, %y)`."""

    name = "plan.launch"
    kernel = prop_def(SymbolRefAttr)
    arguments = var_operand_def(MemRefType)
    traits = lazy_traits_def(lambda: (HasParent(ProgramOp),))

    def __init__(self, kernel: str, arguments: Sequence[SSAValue]) -> None:
        super().__init__(
            operands=[list(arguments)],
            properties={"kernel": SymbolRefAttr(kernel)},
        )

    @property
    def kernel_name(self) -> str:
        """The launched `kernel.func`'s symbol."""
        return self.kernel.root_reference.data

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.kernel_name)
        with printer.in_parens():
            printer.print_list(self.arguments, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> "LaunchOp":
        kernel = parser.parse_symbol_name().data
        arguments = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, lambda: _parse_defined(parser)
        )
        op = cls(kernel, arguments)
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copies a buffer into a view of the arena: `plan.copy %x to %t`."""

    name = "plan.copy"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    traits = lazy_traits_def(lambda: (HasParent(ProgramOp),))

    def __init__(self, source: SSAValue, target: SSAValue) -> None:
        super().__init__(operands=[source, target])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" to ")
        printer.print_ssa_value(self.target)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> "CopyOp":
        source = _parse_defined(parser)
        parser.parse_keyword("to")
        op = cls(source, _parse_defined(parser))
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        if self.source.type != self.target.type:
            raise VerifyException("plan.copy: source and target differ in type")


@irdl_op_definition
class OutputOp(IRDLOperation):
    """Names a result of the graph: `plan.output "logits" %t tensor<32x32xf32>`."""

    name = "plan.output"
    label = prop_def(StringAttr)
    tensor = prop_def(TensorType)
    source = operand_def(MemRefType)
    traits = lazy_traits_def(lambda: (HasParent(ProgramOp),))

    def __init__(self, label: str, source: SSAValue, tensor: TensorType[Attribute]) -> None:
        super().__init__(
            operands=[source], properties={"label": StringAttr(label), "tensor": tensor}
        )

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.label.data)
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        printer.print_string(" ")
        printer.print_attribute(self.tensor)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> "OutputOp":
        label = parser.parse_str_literal()
        source = _parse_defined(parser)
        tensor = parser.parse_type()
        if not isinstance(tensor, TensorType):
            parser.raise_error("an output's type must be a tensor")
        op = cls(label, source, cast(TensorType[Attribute], tensor))
        op.attributes.update(parser.parse_optional_attr_dict())
        return op

    def verify_(self) -> None:
        expected = buffer_type(self.tensor)
        if self.source.type != expected:
            raise VerifyException(f"plan.output: {self.tensor} lies in {expected}")


@irdl_op_definition
class ProgramOp(ArenaProgram):
    """One graph's launches over one arena: `plan.program @mlp arena 8192 { … }`.

    `align 512` after the arena's size asks for coarser offsets than 256 bytes. Errors: a name used
    twice; an operation of another dialect; a launch that does not fit its kernel; a hazard.
    """

    name = "plan.program"
    sym_name = prop_def(SymbolNameConstraint())
    arena = prop_def(IntegerAttr)
    alignment = prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(
        SymbolOpInterface(), IsolatedFromAbove(), NoTerminator(), HasParent(ModuleOp)
    )

    def __init__(
        self, name: str, arena: int, body: Region | None = None, alignment: int = ALIGNMENT
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "arena": IntegerAttr(arena, i64),
                "alignment": IntegerAttr(alignment, i64),
            },
            regions=[Region(Block()) if body is None else body],
        )

    @property
    def arena_bytes(self) -> int:
        return self.arena.value.data

    @property
    def alignment_bytes(self) -> int:
        return self.alignment.value.data

    @property
    def steps(self) -> Iterator["LaunchOp | CopyOp"]:
        """The launches and copies, in order."""
        for op in self.body.block.ops:
            if isinstance(op, LaunchOp | CopyOp):
                yield op

    def statistic(self, name: str) -> int | None:
        """A figure that `plan-memory` left in the attributes, such as `lower_bound`."""
        value = self.attributes.get(name)
        return value.value.data if isinstance(value, IntegerAttr) else None

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" arena {self.arena_bytes}")
        if self.alignment_bytes != ALIGNMENT:
            printer.print_string(f" align {self.alignment_bytes}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> "ProgramOp":
        name = parser.parse_symbol_name().data
        parser.parse_keyword("arena")
        arena = parser.parse_integer(allow_boolean=False)
        alignment = ALIGNMENT
        if parser.parse_optional_keyword("align"):
            alignment = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(name, arena, parser.parse_region(), alignment)
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def verify_(self) -> None:
        if self.alignment_bytes < ALIGNMENT or self.alignment_bytes % ALIGNMENT:
            raise VerifyException(f"plan.program: alignment must be a multiple of {ALIGNMENT}")
        for op in self.body.block.ops:
            if op.dialect_name() != "plan":
                raise VerifyException(f"plan.program: {op.name} does not belong here")
        _check_names(self)
        _check_memory(self)


@dataclass(frozen=True)
class _Interface:
    """What a launch must know of a kernel: its arguments, and the pairs that may share memory."""

    types: tuple[Attribute, ...]
    access: tuple[Access, ...]
    in_place: frozenset[tuple[int, int]]


def _check_names(program: ProgramOp) -> None:
    seen: set[tuple[type[Operation], str]] = set()
    for op in program.body.block.ops:
        if isinstance(op, InputOp | OutputOp):
            name = op.label.data
        elif isinstance(op, ParamOp):
            name = op.parameter_name
        else:
            continue
        if (type(op), name) in seen:
            raise VerifyException(f"{op.name}: '{name}' is there twice")
        seen.add((type(op), name))


def _check_memory(program: ProgramOp) -> None:
    """Follow the launches in order: what each reads must be there, and stay there until then."""
    kernels = _kernels_around(program)
    memory = Memory()
    try:
        check_steps((_step(op, kernels) for op in program.steps), memory)
        for op in program.body.block.ops:
            if isinstance(op, OutputOp) and isinstance(op.source.owner, ViewOp):
                memory.read(f'output "{op.label.data}"', _extent(op.source, op.source.owner))
    except Hazard as hazard:
        raise VerifyException(f"plan.program: {hazard}") from None


def _kernels_around(program: ProgramOp) -> dict[str, _Interface] | None:
    """The kernels beside a program by name; None for a program that stands alone."""
    module = program.parent_op()
    if module is None:
        return None
    return {
        op.sym_name.data: _interface(op)
        for op in module.regions[0].block.ops
        if isinstance(op, FuncOp)
    }


def _interface(function: FuncOp) -> _Interface:
    pairs = in_place_pairs(function)
    if function.noalias is not None:
        pairs = frozenset[tuple[int, int]]()
    types = tuple(argument.type for argument in function.arguments)
    return _Interface(types, function.accesses, pairs)


def _step(op: "LaunchOp | CopyOp", kernels: dict[str, _Interface] | None) -> Step:
    if isinstance(op, CopyOp):
        return _step_of("plan.copy", op.operands, (Access.READ, Access.WRITE), frozenset())
    label = f"launch of @{op.kernel_name}"
    if kernels is None:
        raise Hazard(f"{label}: a program must stand in a module beside its kernels")
    kernel = kernels.get(op.kernel_name)
    if kernel is None:
        raise Hazard(f"{label}: there is no such kernel")
    if len(op.arguments) != len(kernel.types):
        raise Hazard(f"{label}: {len(op.arguments)} arguments for {len(kernel.types)}")
    for i, (argument, wanted) in enumerate(zip(op.arguments, kernel.types, strict=True)):
        if argument.type != wanted:
            raise Hazard(f"{label}: argument {i} is a {argument.type}, the kernel takes {wanted}")
    return _step_of(label, op.arguments, kernel.access, kernel.in_place)


def _step_of(
    label: str,
    arguments: Sequence[SSAValue],
    access: Sequence[Access],
    in_place: frozenset[tuple[int, int]],
) -> Step:
    reads: dict[int, Extent] = {}
    writes: dict[int, Extent] = {}
    for i, (argument, mode) in enumerate(zip(arguments, access, strict=True)):
        owner = argument.owner
        if not isinstance(owner, ViewOp):
            if mode.writes:
                raise Hazard(f"{label}: argument {i} is written and must be a view of the arena")
            continue
        extent = _extent(argument, owner)
        if mode.reads:
            reads[i] = extent
        if mode.writes:
            writes[i] = extent
    return Step(label, reads, writes, in_place)


def _extent(value: SSAValue, view: ViewOp) -> Extent:
    name = f"%{value.name_hint}" if value.name_hint else "the view"
    label = f"{name} (bytes {view.start} to {view.end})"
    return Extent(value, label, view.start, max(view.end, view.start + 1))


Plan = Dialect(
    "plan", [ProgramOp, InputOp, ParamOp, ConstantOp, ViewOp, LaunchOp, CopyOp, OutputOp]
)
