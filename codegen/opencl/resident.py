"""OpenCL C of a resident launch: one kernel that walks stages, with a barrier of the whole device.

In: a `plan.resident`, the kernels that its stages launch, and a device. Out: the program, with all
that a launch needs.

```
// resident
void stage_0(__local uchar* memory, int lane, int begin, int stride, int units, uint all,
    __global uint* arrivals, __global uchar* p0, __global uchar* p1)
{
    for (int unit = begin; unit < units; unit += stride) { … }    // each kernel's body once,
}                                    // which may wait for `all` groups behind its first reads

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void resident(__global uchar* b0, …, __global uint* arrivals)
{
    __local uchar memory[8192] __attribute__((aligned(1024)));
    for (int stage = 0; stage < 30; ++stage) {
        switch (stage) {                              // which kernel, on which buffers
        case 0: kind = 1; units = 96; meets = 1; p0 = b0; p1 = b4; break;
        …
        if (waits && !late) …                         // until all groups have arrived
        switch (kind) {
        case 0: stage_0(memory, lane, begin, stride, units, all, arrivals, p0, p1); break;
        …
        if (meets) …                                  // this group has
```
Each kernel's body is a function. Where they have over `MOST_INLINED` operations together, they are
not inlined: the time of a driver's compiler grows faster than the size of a function. Those whose
groups multiply on a matrix unit are: NVIDIA's assembler has these products wait for one another in
any function that is called (its message C7510).

The launch has one argument more than its buffers: `arrivals`, a counter that is 0 before and after
it. So many groups are launched as run at once; the text takes any number. On a CPU that is one, and
nobody waits. Every pointer may be another's: what a stage reads, an earlier one may have written.
"""

from collections.abc import Mapping
from math import prod

from xdsl.dialects.builtin import Float64Type, MemRefType
from xdsl.ir import SSAValue

from mgn.codegen.device_barrier import (
    ALL_ITEMS,
    ARRIVE,
    ARRIVE_PARAMETERS,
    AWAIT,
    AWAIT_PARAMETERS,
    arrive_lines,
    await_lines,
)
from mgn.codegen.opencl.c_types import CTypes
from mgn.codegen.opencl.expression import Expression
from mgn.codegen.opencl.functions import Library
from mgn.codegen.opencl.memory import LARGEST_LOCAL
from mgn.codegen.opencl.opencl import ROWS, directives, types_of
from mgn.codegen.opencl.stage_places import StagePlaces
from mgn.codegen.opencl.writer import CodegenError, Writer
from mgn.codegen.signature import RESIDENT, RESIDENT_ENTRY, KernelArgument, KernelSignature
from mgn.dialects.kernel import Access, Device, FuncOp, needs_wide_index
from mgn.dialects.kernel.buffers import byte_size
from mgn.dialects.kernel.group_units import GroupMmaHeldOp, GroupMmaOp
from mgn.dialects.kernel.lanes import element
from mgn.dialects.kernel.residency import (
    MOST_INLINED,
    blocks_of,
    local_bytes,
    operations_of,
    resident_memory,
    waits,
)
from mgn.dialects.plan.buffers import ConstantOp, DerivedOp, ParamOp
from mgn.dialects.plan.resident import EVERYWHERE, ResidentOp, place_of
from mgn.dialects.plan.steps import LaunchOp

LINE = 128
"""Bytes of a line of the cache."""

LEAST_AHEAD, MOST_AHEAD = 1 << 16, 1 << 24
"""Bytes of what is brought into the cache ahead of its stage: a table that is larger is read in a
few places only, or would push out what is there.
"""


def resident_signature(
    resident: ResidentOp, functions: Mapping[str, FuncOp], device: Device
) -> KernelSignature:
    """The program and the launch. CodegenError where a kernel cannot be a stage there."""
    return _Resident(resident, functions, device).signature()


class _Resident:
    def __init__(
        self, resident: ResidentOp, functions: Mapping[str, FuncOp], device: Device
    ) -> None:
        self._resident, self._device = resident, device
        self._items = resident.group_items
        self._kinds = {stage.kernel_name: n for n, stage in enumerate(_distinct(resident))}
        self._functions = {name: functions[name] for name in self._kinds}
        self._placed = {name: self._places(name) for name in self._kinds}
        self._library = Library()
        self._memory = max(
            resident_memory(func, self._items, device) for func in self._functions.values()
        )
        self._is_large = sum(map(operations_of, self._functions.values())) > MOST_INLINED
        self._writers: list[Writer] = []
        self._arguments = resident.arguments
        self._number = {place_of(value): n for n, value in enumerate(self._arguments)}
        self._accesses: dict[int, list[Access]] = {n: [] for n in self._number.values()}
        for stage in resident.stages:
            accesses = functions[stage.kernel_name].accesses
            for value, access in zip(stage.arguments, accesses, strict=True):
                self._accesses[self._number[place_of(value)]].append(access)

    def signature(self) -> KernelSignature:
        if self._device.kind != "cpu" and self._device.vendor != "nvidia":
            raise CodegenError(f"{self._device.name} has no barrier of the whole device")
        name = self._resident.sym_name.data
        bodies = [line for kind in self._kinds for line in self._body(kind)]
        memory = self._memory
        extensions = {item for writer in self._writers for item in writer.extensions}
        if any(
            isinstance(element(type), Float64Type)
            for func in self._functions.values()
            for type in types_of(func)
        ):
            extensions.add("cl_khr_fp64")
        pragmas = "".join(
            f"#pragma OPENCL EXTENSION {extension} : enable\n" for extension in sorted(extensions)
        )
        declared = memory if self._device.is_cpu else min(memory, LARGEST_LOCAL)
        architecture = max((writer.architecture for writer in self._writers), default="")
        enlarged = {"memory": (declared, memory)} if memory > declared else {}
        parameters = [f"__global uchar* b{n}" for n in range(len(self._arguments))]
        parameters.append("__global uint* arrivals")
        text = "\n".join(
            [
                *self._head(declared),
                *self._stages(),
                *self._begins(),
                "        switch (kind) {",
                *map(self._case, self._kinds),
                "        }",
                *self._ends(),
                "    }",
                *self._end(),
            ]
        )
        source = (
            f"{RESIDENT}\n{directives(architecture, enlarged)}{pragmas}"
            f"#pragma OPENCL FP_CONTRACT OFF\n\n{self._library.text}" + "\n".join(bodies) + "\n\n"
            f"__kernel __attribute__((reqd_work_group_size({self._items}, 1, 1)))\n"
            f"void {RESIDENT_ENTRY}(\n    " + ",\n    ".join(parameters) + f")\n{{\n{text}\n}}\n"
        )
        groups = max(sum(map(self._useful, span)) for span in self._spans())
        return KernelSignature(
            name=name,
            source=source,
            global_size=(groups * self._items, 1, 1),
            local_size=(self._items, 1, 1),
            arguments=tuple(self._argument(n) for n in range(len(self._arguments))),
            local_memory=memory,
        )

    def _spans(self) -> list[list[str]]:
        return [[stage.kernel_name for stage in span] for span in self._resident.spans]

    def _places(self, name: str) -> StagePlaces:
        func = self._functions[name]
        blocks = blocks_of(func, self._items, self._device)
        if not blocks:
            raise CodegenError(
                f"kernel '{name}' cannot be a stage of groups of {self._items} work-items on "
                f"{self._device.name}"
            )
        return StagePlaces(func, self._items, blocks, self._device.vendor)

    def _useful(self, name: str) -> int:
        """How many resident groups have something to do in a stage: each takes a work-group before
        any takes a second one beside it, so that no compute unit is idle meanwhile.
        """
        return self._placed[name].units

    def _argument(self, number: int) -> KernelArgument:
        """What the launch does with a buffer: all that its stages do."""
        value, found = self._arguments[number], self._accesses[number]
        access = Access.READ_WRITE
        if not any(item.writes for item in found):
            access = Access.READ
        elif found[0] is Access.WRITE:
            access = Access.WRITE
        assert isinstance(value.type, MemRefType)
        name = str(value.type.element_type)
        return KernelArgument(
            access.value, "bool" if name == "i1" else name, value.type.get_shape()[0]
        )

    def _head(self, declared: int) -> list[str]:
        most = max(len(func.arguments) for func in self._functions.values())
        pointers = ", ".join(f"*p{n} = b0" for n in range(most))
        memory = [f"    __local uchar memory[{declared}] __attribute__((aligned(1024)));"]
        return [
            *(memory if declared else []),
            "    const int lane = get_local_id(0), groups = get_num_groups(0);",
            "    int turn = get_group_id(0), met = 0;",
            f"    __global uchar {pointers};",
            "    const __global uchar* ahead = b0;",
            "    int kind = 0, units = 0, meets = 0, everywhere = 0, lines = 0, late = 0;",
            "    #pragma unroll 1",
            f"    for (int stage = 0; stage < {sum(map(len, self._spans()))}; ++stage) {{",
            "        const int waits = meets, before = everywhere ? 0 : units;",
            "        meets = everywhere = late = lines = 0;",
        ]

    def _stages(self) -> list[str]:
        """Which kernel each stage is, and on which buffers."""
        lines = ["        switch (stage) {"]
        spans = self._resident.spans
        ahead = self._ahead()
        number = 0
        for position, span in enumerate(spans):
            for stage in span:
                meets = stage is span[-1] and position + 1 < len(spans)
                places = self._placed[stage.kernel_name]
                set_ = [f"kind = {self._kinds[stage.kernel_name]}", f"units = {places.units}"]
                set_ += ["meets = 1"] if meets else []
                set_ += ["everywhere = 1"] if EVERYWHERE in stage.attributes else []
                set_ += ["late = 1"] if self._waits_late(stage) else []
                if number in ahead:
                    value = ahead[number]
                    count = byte_size(value.type) // LINE
                    set_ += [f"ahead = b{self._number[place_of(value)]}", f"lines = {count}"]
                set_ += [
                    f"p{n} = b{self._number[place_of(value)]}"
                    for n, value in enumerate(stage.arguments)
                ]
                lines.append(f"        case {number}: {'; '.join(set_)}; break;")
                number += 1
        lines.append("        }")
        if not ahead:
            return lines
        prefetch = f'asm volatile("prefetch.global.L2 [%0];" :: "l"(ahead + line * {LINE}L));'
        return [
            *lines,
            "        for (int line = get_group_id(0) * get_local_size(0) + lane; line < lines;",
            "             line += groups * get_local_size(0))",
            f"            {prefetch}",
        ]

    def _ahead(self) -> dict[int, SSAValue]:
        """What is brought into the device's cache while a stage runs: as the first stage that reads
        a weight begins, that of the next one.
        """
        if self._device.vendor != "nvidia":
            return {}
        found: dict[int, SSAValue] = {}
        last = 0
        for number, stage in enumerate(self._resident.stages):
            weight = max(filter(_is_weight, stage.arguments), key=_bytes, default=None)
            if weight is None:
                continue
            if number:
                found[last] = weight
            last = number
        return found

    def _waits_late(self, stage: LaunchOp) -> bool:
        """Whether a stage waits where its kernel says. What it reads before has to outlive runs,
        and no stage of the launch may write it.
        """
        early = self._placed[stage.kernel_name].early
        read = [stage.arguments[number] for number in early or ()]
        return early is not None and all(
            _outlives_runs(value)
            and not any(access.writes for access in self._accesses[self._number[place_of(value)]])
            for value in read
        )

    def _body(self, name: str) -> list[str]:
        """A kernel's body in a loop over the work-groups that a resident group does of it."""
        func, places = self._functions[name], self._placed[name]
        writer = Writer(ROWS, CTypes(needs_wide_index(func)), self._device)
        writer.library, writer.stage, writer.depth = self._library, places, 2
        self._writers.append(writer)
        own = prod(func.local_sizes)
        for number, (argument, access) in enumerate(
            zip(func.arguments, func.accesses, strict=True)
        ):
            assert isinstance(argument.type, MemRefType)
            constant = "const " if access is Access.READ else ""
            type = f"{constant}__global {writer.types.memory(argument.type.element_type)}*"
            variable = writer.fresh(argument.name_hint or "buffer")
            writer.set(argument, Expression(variable))
            writer.line(f"{type} {variable} = ({type})p{number};")
        writer.block(func.body.block)
        if writer.sub_group or writer.enlarged:
            raise CodegenError(f"kernel '{name}' asks for more than a stage can have")
        if waits(func):  # the next work-group has the same local memory
            writer.line(places.barrier)
        first, step = "begin", "stride"
        outside, item = "", "    const int item = lane;"
        if not places.is_whole:
            item = f"    const int item = lane % {own}, block = lane / {own};"
            first, step = "begin + stride * block", f"stride * {places.blocks}"
            outside = f"    if (block >= {places.blocks}) return;" if places.leaves_items else ""
        # A group without work waits, too: the next stage of the span does not.
        idle = places.await_lines() if places.can_wait_late else []
        memory = ["__local uchar* memory"] if self._memory else []
        parameters = [*memory, "int lane", "int begin", "int stride", "int units"]
        parameters += ["uint all", "__global uint* arrivals"] if places.can_wait_late else []
        parameters += [f"__global uchar* p{n}" for n in range(len(func.arguments))]
        called = self._is_large and not _multiplies_by_groups(func)
        apart = "__attribute__((noinline)) " if called else ""
        return [
            f"{apart}void {self._function(name)}( // {name}",
            f"    {', '.join(parameters)})",
            "{",
            item,
            *([outside] if outside else []),
            f"    for (int unit = {first}; unit < units; unit += {step}) {{",
            writer.text.rstrip("\n"),
            "    }",
            *(f"    {line}" for line in idle),
            "}",
        ]

    def _function(self, name: str) -> str:
        """What the body of a kernel is called."""
        return f"stage_{self._kinds[name]}"

    def _case(self, name: str) -> str:
        """The call of a kernel's body."""
        given = ["memory"] if self._memory else []
        given += ["lane", "begin", "stride", "units"]
        given += ["all", "arrivals"] if self._placed[name].can_wait_late else []
        given += [f"p{n}" for n in range(len(self._functions[name].arguments))]
        return (
            f"        case {self._kinds[name]}: {self._function(name)}({', '.join(given)}); break;"
        )

    def _begins(self) -> list[str]:
        """Before a stage: all groups wait, or it begins where the one before it ends. The items of
        a group meet where stages have the same local memory, or read what the group has written.
        They meet, too, where some have not waited inside a kernel.
        """
        wait, late = ALL_ITEMS, []
        if self._device.kind != "cpu":
            name = self._library.add(AWAIT, "void", AWAIT_PARAMETERS, *await_lines())
            wait = f"if (!late) {name}(arrivals, met * groups);"
            late = ["        uint all = waits && late ? met * groups : 0;"]
        stages = list(self._resident.stages)
        shares = any(local_bytes(func) for func in self._functions.values())
        repeats = any(EVERYWHERE in stage.attributes for stage in stages)
        idle = any(item.can_wait_late and item.leaves_items for item in self._placed.values())
        return [
            "        if (waits) {",
            f"            {wait}",
            "            turn = get_group_id(0);",
            "        } else {",
            *([f"            {ALL_ITEMS}"] if shares or repeats or idle else []),
            "            turn = (turn + groups - before % groups) % groups;",
            "        }",
            "        const int begin = everywhere ? 0 : turn, stride = everywhere ? 1 : groups;",
            *late,
        ]

    def _ends(self) -> list[str]:
        """Behind a stage: the group has arrived where another one waits for it."""
        if self._device.kind == "cpu":
            return []
        name = self._library.add(ARRIVE, "void", ARRIVE_PARAMETERS, *arrive_lines())
        return [
            "        if (meets) {",
            f"            {name}(arrivals);",
            "            ++met;",
            "        }",
        ]

    def _end(self) -> list[str]:
        """The last group that comes to the end sets the counter back. By then nobody waits: the
        parts of a group that wait apart in the last span meet first.
        """
        if self._device.kind == "cpu" or len(self._spans()) < 2:
            return []
        last = self._resident.spans[-1][0]
        apart = self._waits_late(last) and not self._placed[last.kernel_name].is_whole
        return [
            *([f"    {ALL_ITEMS}"] if apart else []),
            "    if (lane == 0 && atomic_inc(arrivals) == (met + 1) * groups - 1)",
            "        *arrivals = 0;",
        ]


def _multiplies_by_groups(func: FuncOp) -> bool:
    """Whether groups of sub-groups multiply together, while the kernel goes on."""
    return any(isinstance(op, GroupMmaOp | GroupMmaHeldOp) for op in func.walk())


def _is_weight(value: SSAValue) -> bool:
    """Whether a buffer outlives runs and is of a size that is worth while."""
    return _outlives_runs(value) and LEAST_AHEAD <= _bytes(value) <= MOST_AHEAD


def _outlives_runs(value: SSAValue) -> bool:
    """Whether a run finds what a buffer holds, rather than computes or copies it."""
    return isinstance(value.owner, ParamOp | DerivedOp | ConstantOp)


def _bytes(value: SSAValue) -> int:
    return byte_size(value.type)


def _distinct(resident: ResidentOp) -> list:
    return list({stage.kernel_name: stage for stage in resident.stages}.values())
