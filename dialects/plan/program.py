"""The operation `plan.program`: the host's program as a whole, and the check of it.

In: the buffers and the steps of a program. Out: nothing, or a `VerifyException` that names the step
which reads what is not, or no longer, there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import (
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import Attribute, Block, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, NoTerminator, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.isolation import Isolated
from mgn.dialects.kernel.buffers import (
    ALIGNMENT,
    byte_size,
    combined_results,
    in_place_pairs,
    starting_pairs,
)
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.kernel.types import Access
from mgn.dialects.plan.buffers import (
    ArenaProgram,
    ConstantOp,
    DerivedOp,
    InputOp,
    ParamOp,
    ViewOp,
)
from mgn.dialects.plan.hazards import Extent, Hazard, Memory, Step, check_apart, check_steps
from mgn.dialects.plan.resident import EVERYWHERE, BarrierOp, ResidentOp
from mgn.dialects.plan.states import NextOp, StateOp
from mgn.dialects.plan.steps import CopyOp, KernelCallOp, LaunchOp, OutputOp, PrepareOp


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
    traits = traits_def(SymbolOpInterface(), Isolated(), NoTerminator(), HasParent(ModuleOp))

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
        """The launches and copies of a run, in order; those of resident launches too."""
        for op in self.body.block.ops:
            if isinstance(op, LaunchOp | CopyOp):
                yield op
            elif isinstance(op, ResidentOp):
                yield from op.stages

    @property
    def residents(self) -> Iterator["ResidentOp"]:
        """The launches of several kernels, in order."""
        for op in self.body.block.ops:
            if isinstance(op, ResidentOp):
                yield op

    @property
    def preparations(self) -> Iterator["PrepareOp"]:
        """What runs when parameters have changed, in order."""
        for op in self.body.block.ops:
            if isinstance(op, PrepareOp):
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
    """What a launch must know of a kernel: its arguments, the pairs that may share memory, those
    of which the second begins as the first, and the arguments that it does not touch itself.
    `combined` are the results that it combines with what they begin as.
    """

    types: tuple[Attribute, ...]
    access: tuple[Access, ...]
    in_place: frozenset[tuple[int, int]]
    parts: frozenset[tuple[int, int]]
    unused: frozenset[int]
    combined: frozenset[int]


def _check_names(program: ProgramOp) -> None:
    seen: set[tuple[type[Operation], str]] = set()
    for op in program.body.block.ops:
        if isinstance(op, InputOp | OutputOp):
            name = op.label.data
        elif isinstance(op, ParamOp | StateOp):
            name = op.external_name
        elif isinstance(op, NextOp):
            name = op.holder.external_name
        elif isinstance(op, ResidentOp):
            name = op.sym_name.data
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
        derived = _check_preparations(program, kernels)
        places = _places(program)
        for op in program.body.block.ops:
            if isinstance(op, StateOp):
                memory.write("a run before", places[op.result])
        steps = {op: _step(op, kernels, derived, places) for op in program.steps}
        check_steps(steps.values(), memory)
        for resident in program.residents:
            for span in resident.spans:
                check_apart([steps[op] for op in span])
        for op in program.body.block.ops:
            if isinstance(op, NextOp):
                memory.read(f'state "{op.holder.external_name}" after the run', places[op.result])
            if not isinstance(op, OutputOp):
                continue
            label, owner = f'output "{op.label.data}"', op.source.owner
            if isinstance(owner, DerivedOp):
                _check_derived(label, op.source, derived)
            elif op.source in places:
                memory.read(label, places[op.source])
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
    named = enumerate(function.arguments)
    unused = frozenset(position for position, argument in named if argument.first_use is None)
    parts, combined = starting_pairs(function), combined_results(function)
    return _Interface(types, function.accesses, pairs, parts, unused, combined)


def _check_preparations(program: ProgramOp, kernels: dict[str, _Interface] | None) -> set[SSAValue]:
    """The derived buffers, all written once and read after that, from parameters alone."""
    derived: set[SSAValue] = set()
    launched = False
    for op in program.body.block.ops:
        launched |= isinstance(op, LaunchOp | CopyOp | ResidentOp)
        if not isinstance(op, PrepareOp):
            continue
        label = f"preparation by @{op.kernel_name}"
        if launched:
            raise Hazard(f"{label} must stand before the launches")
        kernel = _kernel_of(op, label, kernels)
        accesses = list(zip(op.arguments, kernel.access, strict=True))
        for argument, mode in sorted(accesses, key=lambda access: access[1].writes):
            _check_prepared(label, argument, mode, derived)
            if mode.writes:
                derived.add(argument)
    return derived


def _check_prepared(label: str, argument: SSAValue, mode: Access, derived: set[SSAValue]) -> None:
    owner = argument.owner
    shown = f"%{argument.name_hint}" if argument.name_hint else "a buffer"
    if mode.writes:
        if not isinstance(owner, DerivedOp):
            raise Hazard(f"{label} writes {shown}, which is no derived buffer")
        if argument in derived or mode.reads:
            raise Hazard(f"{label} writes {shown}, which has to be written once, as a whole")
    elif isinstance(owner, DerivedOp):
        _check_derived(label, argument, derived)
    elif not isinstance(owner, ParamOp | ConstantOp):
        raise Hazard(f"{label} reads {shown}, which does not depend on parameters alone")


def _check_derived(label: str, argument: SSAValue, derived: set[SSAValue]) -> None:
    if argument not in derived:
        shown = f"%{argument.name_hint}" if argument.name_hint else "a derived buffer"
        raise Hazard(f"{label} reads {shown}, which nothing has prepared")


def _places(program: ProgramOp) -> dict[SSAValue, Extent]:
    """Where all that launches may write lies: views in the arena, each state behind it."""
    places: dict[SSAValue, Extent] = {}
    end = program.arena_bytes + 1
    for op in program.body.block.ops:
        if isinstance(op, ViewOp):
            places[op.result] = _extent(op.result, op)
        elif isinstance(op, StateOp):
            size = max(byte_size(op.result.type), 1)
            label = f'state "{op.external_name}"'
            places[op.result] = Extent(op.result, f"{label} before the run", end, end + size)
            end += size
        elif isinstance(op, NextOp):
            place = places[op.state]
            label = f'the next value of state "{op.holder.external_name}"'
            places[op.result] = Extent(op.result, label, place.start, place.end)
    return places


def _step(
    op: "LaunchOp | CopyOp",
    kernels: dict[str, _Interface] | None,
    derived: set[SSAValue],
    places: dict[SSAValue, Extent],
) -> Step:
    if isinstance(op, CopyOp):
        access = (Access.READ, Access.WRITE)
        return _step_of("plan.copy", op.operands, access, derived, places)
    label = f"launch of @{op.kernel_name}"
    kernel = _kernel_of(op, label, kernels)
    step = _step_of(label, op.arguments, kernel.access, derived, places)
    everywhere = EVERYWHERE in op.attributes
    told = {name: getattr(kernel, name) for name in ("in_place", "parts", "unused", "combined")}
    return replace(step, **told, everywhere=everywhere)


def _kernel_of(op: KernelCallOp, label: str, kernels: dict[str, _Interface] | None) -> _Interface:
    """The kernel that is run, whose arguments must be what it takes."""
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
    return kernel


def _step_of(
    label: str,
    arguments: Sequence[SSAValue],
    access: Sequence[Access],
    derived: set[SSAValue],
    places: dict[SSAValue, Extent],
) -> Step:
    reads: dict[int, Extent] = {}
    writes: dict[int, Extent] = {}
    for i, (argument, mode) in enumerate(zip(arguments, access, strict=True)):
        owner = argument.owner
        if mode.writes and not isinstance(owner, ViewOp | NextOp):
            wanted = "a view of the arena, or a state's next value"
            raise Hazard(f"{label}: argument {i} is written and must be {wanted}")
        if isinstance(owner, DerivedOp):
            _check_derived(label, argument, derived)
        if argument not in places:
            continue
        extent = places[argument]
        if mode.reads:
            reads[i] = extent
        if mode.writes:
            writes[i] = extent
    return Step(label, reads, writes)


def _extent(value: SSAValue, view: ViewOp) -> Extent:
    name = f"%{value.name_hint}" if value.name_hint else "the view"
    label = f"{name} (bytes {view.start} to {view.end})"
    return Extent(value, label, view.start, max(view.end, view.start + 1))


Plan = Dialect(
    "plan",
    [
        *(ProgramOp, InputOp, ParamOp, ConstantOp, DerivedOp, ViewOp, StateOp, NextOp),
        *(PrepareOp, LaunchOp, ResidentOp, BarrierOp, CopyOp, OutputOp),
    ],
)
