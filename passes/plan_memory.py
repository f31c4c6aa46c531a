"""plan-memory: a graph of launches becomes a program over one arena.

Before:

    mgn.graph @mlp("x" = %x : tensor<32x64xf32>) -> ("y" : tensor<32x16xf32>) {
      %w = mgn.read @w : tensor<16x64xf32>
      %h = fusion.launch @linear(%x, %w) : (tensor<32x64xf32>, …) -> tensor<32x16xf32>
      %y = fusion.launch @relu(%h) : (tensor<32x16xf32>) -> tensor<32x16xf32>
      mgn.return %y : tensor<32x16xf32>
    }

After, where `@relu` may work in place:

    plan.program @mlp arena 2048 attributes {tensor_bytes = 4096 : i64, lower_bound = 2048 : i64} {
      %x = plan.input "x" tensor<32x64xf32> : memref<2048xf32>
      %w = plan.param @w tensor<16x64xf32> : memref<1024xf32>
      %h = plan.view offset 0 : memref<512xf32>
      plan.launch @linear(%x, %w, %h)
      %y = plan.view offset 0 : memref<512xf32>
      plan.launch @relu(%h, %y)
      plan.output "y" %y tensor<32x16xf32>
    }

A result of which a kernel writes a part lies where the rest of it does, if that may go; else a
`plan.copy` puts it there before the launch.

A launch that depends on parameters and constants alone becomes a `plan.prepare`, whose results have
buffers of their own (`plan.derived`): a run finds them there. One that writes a part of what is
copied before stays a launch. Without `prepare` it stays a launch,
as is right where a run itself changes parameters.

A state that the graph reads or writes is a `plan.state`. Copies behind all launches write what the
run leaves in states, so that a run which fails before them has changed none. Two sorts of kernels
write a state in place instead: a kernel that writes a part of a state whose old value no later
launch reads, and the last kernels, if they write nothing but what is left in states.

The order of the launches stays; the pass `rematerialise` before it may change that, have states
written before all else is done, and leave figures for the program. Outputs lie in the arena too,
and live to the end: a run hands out copies for the host anyway, and one buffer is one allocation.
`tensor_bytes` is what all launch results would take without sharing, `lower_bound` the most that
live at one step, `derived_bytes` what the derived buffers take besides.
"""

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mgn.diagnostics import MgnError
from mgn.dialects import plan
from mgn.dialects.fusion import LaunchOp
from mgn.dialects.kernel.buffers import ALIGNMENT, buffer_type, in_place_pairs, starting_pairs
from mgn.dialects.kernel.device import Device
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.mgn.parameter_only import parameter_only
from mgn.dialects.mgn.structure import ConstantOp, GraphOp, ReadOp, ReturnOp, graphs_of
from mgn.dialects.plan import buffers as plan_buffers
from mgn.dialects.plan import states as plan_states
from mgn.dialects.plan import steps as plan_steps
from mgn.passes.arena import Interval, aligned, pack
from mgn.passes.liveness import Pairs, assign_slots, tensor_bytes
from mgn.passes.states_in_place import states_in_place
from mgn.passes.wrong_level import WrongLevel

GPU_ALIGNMENT = 512
"""What NVIDIA's driver wants of a sub-buffer's offset."""

SMALL, LINGERS = 1 << 16, 2
"""Up to how many bytes a value may have to stay for how many launches after its last use, where
launches may become stages of one. What is written next then lies elsewhere, and no barrier need
stand before it.
"""

AGAIN = "again"
"""The attribute of a launch that computes once more what another one did."""

EARLY, FIGURES, PLANNED = "early_states", "figures", "planned_arena"
"""Attributes that `rematerialise` leaves on a graph: that kernels write states before all else is
done, what the program says of its budget, and the bytes of the arena that it was planned with.
"""


@dataclass(frozen=True)
class PlanMemory(ModulePass):
    """Replace every `mgn.graph` by a `plan.program`; offsets are multiples of `alignment` bytes.

    With `prepare=false`, all launches are in every run.
    """

    name = "plan-memory"

    alignment: int | None = None
    prepare: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        alignment = alignment_of(op, self.alignment)
        functions = [item for item in op.body.block.ops if isinstance(item, FuncOp)]
        pairs = {function.sym_name.data: in_place_pairs(function) for function in functions}
        starting = {function.sym_name.data: starting_pairs(function) for function in functions}
        for graph in list(graphs_of(op)):
            early = EARLY in graph.attributes
            merged = Device.of(op).barrier_cost > 0.0 and PLANNED not in graph.attributes
            lingers = LINGERS if merged else 0
            program = plan_graph(graph, pairs, alignment, self.prepare, starting, early, lingers)
            figures = graph.attributes.get(FIGURES)
            if isinstance(figures, DictionaryAttr):
                program.attributes |= figures.data
            planned = graph.attributes.get(PLANNED)
            if isinstance(planned, IntegerAttr) and planned.value.data < program.arena_bytes:
                raise MgnError(
                    f"plan-memory: '{graph.sym_name.data}' takes an arena of "
                    f"{program.arena_bytes} bytes, and rematerialise planned one of "
                    f"{planned.value.data}: both want the same options, and nothing between them"
                )
            op.body.block.insert_op_before(program, graph)
            graph.detach()
            graph.erase()


def alignment_of(module: ModuleOp, asked: int | None) -> int:
    """The multiple of bytes at which values lie on a module's device, unless another is asked for.
    PassFailedException where that is too small.
    """
    if asked is None:
        return ALIGNMENT if Device.of(module).is_cpu else GPU_ALIGNMENT
    if asked < ALIGNMENT or asked % ALIGNMENT:
        raise PassFailedException(f"plan-memory: alignment must be a multiple of {ALIGNMENT}")
    return asked


def split_launches(
    graph: GraphOp, prepare: bool, starting: Pairs
) -> tuple[list[LaunchOp], list[LaunchOp]]:
    """The launches that run when parameters have changed, and those of each run."""
    constant = parameter_only(graph) if prepare else set[SSAValue]()
    launches = [op for op in graph.block.ops if isinstance(op, LaunchOp)]
    for op in launches:
        if starting.get(op.kernel_name) or not constant.issuperset(op.inputs):
            constant.difference_update(op.outputs)
    prepared = [op for op in launches if _is_in(constant, op)]
    return prepared, [op for op in launches if not _is_in(constant, op)]


def plan_graph(
    graph: GraphOp,
    in_place: Pairs,
    alignment: int = ALIGNMENT,
    prepare: bool = True,
    starting: Pairs | None = None,
    early: bool = False,
    lingers: int = 0,
) -> plan.ProgramOp:
    """The program of one graph, not yet in a module. `starting` says which results of a kernel
    start as an argument: they lie where it lies, or are copies of it before the launch. `early`
    has kernels write states before all else is done. Small values stay for `lingers` launches after
    their last use.
    """
    starting = starting or {}
    prepared, launches = split_launches(graph, prepare, starting)
    derived: set[SSAValue] = {value for op in prepared for value in op.outputs}
    results = [value for _, value in graph.named_results]
    returned = [value for value in results if value not in derived]
    held = states_in_place(graph, launches, starting, in_place, early)
    unkept = derived.union(held)
    kept = [*returned, *(value for _, value in graph.named_written if value not in unkept)]
    slots = assign_slots(launches, kept, in_place, held)
    found = {value for _, value in graph.named_states}
    moved = [value for _, value in graph.named_written if value in found]
    unlaunched = dict.fromkeys(item for item in [*returned, *moved] if item not in slots)
    unlaunched = [value for value in unlaunched if value not in held]
    intervals = {
        id(slot): Interval(
            slot.size,
            slot.first,
            min(slot.last + (lingers if slot.size <= SMALL else 0), len(launches)),
        )
        for slot in slots.values()
    } | {
        id(value): Interval(tensor_bytes(value), len(launches), len(launches))
        for value in unlaunched
    }
    layout = pack(list(intervals.values()), alignment)
    offset_of = dict(zip(intervals, layout.offsets, strict=True))
    offsets = {value: offset_of[id(slot)] for value, slot in slots.items()}
    offsets |= {value: offset_of[id(value)] for value in unlaunched}

    program = plan.ProgramOp(graph.sym_name.data, layout.size, alignment=alignment)
    statistics = {
        "tensor_bytes": sum(aligned(tensor_bytes(value), alignment) for value in offsets),
        "lower_bound": layout.lower_bound,
    }
    if derived:
        statistics["derived_bytes"] = sum(map(tensor_bytes, derived))
    for name, value in statistics.items():
        program.attributes[name] = IntegerAttr(value, i64)
    _Writer(program, graph, offsets, derived, starting, held).write()
    return program


def _is_in(constant: set[SSAValue], launch: LaunchOp) -> bool:
    return all(value in constant for value in launch.outputs)


class _Writer:
    """Writes a program's operations from a graph's; `_buffers` maps tensors to their buffers."""

    def __init__(
        self,
        program: plan.ProgramOp,
        graph: GraphOp,
        offsets: dict[SSAValue, int],
        derived: set[SSAValue],
        starting: Pairs,
        in_states: dict[SSAValue, str],
    ) -> None:
        self._block = program.body.block
        self._graph = graph
        self._offsets = offsets
        self._derived = derived
        self._starting = starting
        self._in_states = in_states
        self._next: dict[str, SSAValue] = {}
        self._buffers: dict[SSAValue, SSAValue] = {}
        self._held: dict[tuple[str, object], SSAValue] = {}

    def write(self) -> None:
        graph = self._graph
        for label, argument in graph.named_inputs:
            type = cast(TensorType[Attribute], argument.type)
            self._hold(argument, plan_buffers.InputOp(label, type))
        found: dict[str, SSAValue] = dict(graph.named_states)
        for label, value in graph.named_written:
            found.setdefault(label, value)
        states = {label: self._state(label, value) for label, value in found.items()}
        for label, argument in graph.named_states:
            self._buffers[argument] = states[label]
        for value, label in self._in_states.items():
            if label not in self._next:
                self._next[label] = self._following(states[label])
            self._buffers[value] = self._next[label]
        later: list[Operation] = []
        for op in graph.block.ops:
            if isinstance(op, LaunchOp) and not self._derived.issuperset(op.outputs):
                later.append(op)
            else:
                self._write_operation(op)
        for op in later:
            self._write_operation(op)
        results = [(label, value, self._returned(value)) for label, value in graph.named_results]
        written = [(label, self._returned(value)) for label, value in graph.named_written]
        for label, source in written:
            if label not in self._next:
                following = self._following(states[label])
                self._block.add_op(plan_steps.CopyOp(source, following))
        for label, value, source in results:
            type = cast(TensorType[Attribute], value.type)
            self._block.add_op(plan_steps.OutputOp(label, source, type))

    def _state(self, label: str, value: SSAValue) -> SSAValue:
        op = plan_states.StateOp(label, cast(TensorType[Attribute], value.type))
        op.result.name_hint = value.name_hint if isinstance(value, BlockArgument) else None
        self._block.add_op(op)
        return op.result

    def _following(self, state: SSAValue) -> SSAValue:
        """The place of what a run leaves in a state."""
        op = plan_states.NextOp(state)
        self._block.add_op(op)
        return op.result

    def _write_operation(self, op: Operation) -> None:
        match op:
            case ReadOp():
                self._share(op.result, ("param", op.parameter_name))
            case ConstantOp():
                self._share(op.result, ("constant", op.value))
            case LaunchOp():
                self._write_launch(op)
            case ReturnOp():
                return
            case _:
                before = "saturate, choose-schedules and lower-kernels come before plan-memory"
                raise WrongLevel("plan-memory", op, "launch", before)

    def _write_launch(self, op: LaunchOp) -> None:
        is_prepared = self._derived.issuperset(op.outputs)
        for result in op.outputs:
            if is_prepared:
                type = buffer_type(result.type)
                self._hold(result, plan_buffers.DerivedOp(type))
            elif result not in self._in_states:
                self._view(result)
        call = plan_steps.PrepareOp if is_prepared else plan_steps.LaunchOp
        operands = [self._buffers[value] for value in (*op.inputs, *op.outputs)]
        for read, written in sorted(self._starting.get(op.kernel_name, ())):
            self._start(operands[written], operands[read])
        made = call(op.kernel_name, operands)
        made.location = op.location
        if AGAIN in op.attributes:
            made.attributes[AGAIN] = op.attributes[AGAIN]
        self._block.add_op(made)

    def _start(self, result: SSAValue, source: SSAValue) -> None:
        """Has a result hold what another buffer holds, unless it lies there."""
        if isinstance(result.owner, plan_states.NextOp):
            return
        ends = [item.owner for item in (result, source)]
        places = [item.start for item in ends if isinstance(item, plan_buffers.ViewOp)]
        if len(places) < 2 or places[0] != places[1]:
            self._block.add_op(plan_steps.CopyOp(source, result))

    def _share(self, value: SSAValue, key: tuple[str, object]) -> None:
        """A parameter or constant: one buffer for all that read it, none where nobody does."""
        if not value.uses:
            return
        if key in self._held:
            self._buffers[value] = self._held[key]
            return
        owner = cast(ReadOp | ConstantOp, value.owner)
        if isinstance(owner, ReadOp):
            op = plan_buffers.ParamOp(owner.parameter_name, cast(TensorType[Attribute], value.type))
        else:
            op = plan_buffers.ConstantOp(owner.value)
        self._hold(value, op)
        self._held[key] = op.result

    def _returned(self, value: SSAValue) -> SSAValue:
        """A result's view; an input, parameter or constant that is returned as it is, is copied."""
        source = self._buffers[value]
        if value in self._offsets and not isinstance(source.owner, plan_buffers.ViewOp):
            self._view(value)
            self._block.add_op(plan_steps.CopyOp(source, self._buffers[value]))
        return self._buffers[value]

    def _view(self, value: SSAValue) -> None:
        type = buffer_type(cast(TensorType[Attribute], value.type))
        self._hold(value, plan_buffers.ViewOp(self._offsets[value], type))

    def _hold(
        self,
        value: SSAValue,
        op: plan_buffers.BufferOp,
    ) -> None:
        op.result.name_hint = value.name_hint
        self._block.add_op(op)
        self._buffers[value] = op.result
