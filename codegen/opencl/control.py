"""Rows of `scf` and of the operations of `kernel` that place and synchronise work-items."""

from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, MemRefType
from xdsl.ir import Operation

from mgn.codegen.device_barrier import ALL_ITEMS, AWAIT_PARAMETERS, POLL, poll_lines
from mgn.codegen.opencl.expression import Expression, call, cast, offset
from mgn.codegen.opencl.integer_extrema import extrema_are_in_bits, extremum_in_bits
from mgn.codegen.opencl.writer import Row, Writer
from mgn.dialects import kernel

PLACES: dict[type[Operation], str] = {
    kernel.GlobalIdOp: "get_global_id",
    kernel.LocalIdOp: "get_local_id",
    kernel.GroupIdOp: "get_group_id",
    kernel.GlobalSizeOp: "get_global_size",
    kernel.LocalSizeOp: "get_local_size",
    kernel.NumGroupsOp: "get_num_groups",
}

SUB_GROUP_PLACES: dict[type[Operation], tuple[str, str]] = {
    kernel.SubGroupSizeOp: ("get_sub_group_size()", "32"),
    kernel.SubGroupIdOp: ("get_sub_group_id()", "{linear} / 32"),
    kernel.SubGroupLaneOp: ("get_sub_group_local_id()", "lane_id()"),
}
"""The text in OpenCL C, and on NVIDIA, whose OpenCL has no sub-groups but runs 32 together."""


def _for(writer: Writer, operation: scf.ForOp) -> None:
    counter, *carried = operation.body.block.args
    variables = [
        writer.declare(argument, writer.value(initial))
        for argument, initial in zip(carried, operation.iter_args, strict=True)
    ]
    end, step = writer.value(operation.ub), writer.value(operation.step)
    if not _is_number(end):
        end = writer.name_of(operation.ub)
        if writer.vendor == "nvidia":
            end = _hidden_bound(writer, writer.type(counter), end)
    if not _is_number(step):
        step = writer.name_of(operation.step)
    name = writer.fresh(counter.name_hint or "i")
    writer.set(counter, Expression(name))
    advance = f"++{name}" if step.text in ("1", "1L") else f"{name} += {step}"
    start = f"{writer.type(counter)} {name} = {writer.value(operation.lb)}"
    unroll = operation.attributes.get("unroll")
    if isinstance(unroll, IntegerAttr):
        writer.line(f"#pragma unroll {unroll.value.data}")
    with writer.braces(f"for ({start}; {name} < {end}; {advance})"):
        writer.block(operation.body.block)
        terminator = operation.body.block.last_op
        assert isinstance(terminator, scf.YieldOp)
        writer.assign_together(variables, list(terminator.arguments))
    writer.line("}")
    for result, variable in zip(operation.results, variables, strict=True):
        writer.set(result, variable)


def _hidden_bound(writer: Writer, type: str, end: Expression) -> Expression:
    """A variable of a loop's end, of which NVIDIA's compiler does not know how it came about.

    NVVM 7.0.1 (of CUDA 13.0 and driver 580) has some numbers of rounds wrong: those that it reads
    as -1 - x, and whose limit it knows. It takes such a number for a multiple of 2^32 - 1, and so
    of 3. Where it unrolls the loop three times, it goes on to the next multiple of 3:
    `min(301 - i % 4 * 100, 100)` rounds become 102 for 100, or 3 for 1.
    """
    bits, register = ("b64", "l") if type == "long" else ("b32", "r")
    body = (
        f"{type} b;",
        f'asm("mov.{bits} %0, %1;" : "={register}"(b) : "{register}"(a));',
        "return b;",
    )
    function = writer.library.add(f"{type}_bound", type, f"{type} a", *body)
    name = writer.fresh("end")
    writer.line(f"{type} {name} = {call(function, end)};")
    return Expression(name)


def _is_number(value: Expression) -> bool:
    """Whether an expression is a whole number as it is written, of 32 bits or 64."""
    return value.text.removesuffix("L").isdigit()


def _if(writer: Writer, operation: scf.IfOp) -> None:
    variables = [writer.declare(result) for result in operation.results]
    with writer.braces(f"if ({writer.value(operation.cond)})"):
        _branch(writer, operation.true_region.block, variables)
    if operation.false_region.blocks:
        with writer.braces("} else"):
            _branch(writer, operation.false_region.block, variables)
    writer.line("}")


def _branch(writer: Writer, block: Any, variables: list[Expression]) -> None:
    writer.block(block)
    if isinstance(block.last_op, scf.YieldOp):
        writer.assign_together(variables, list(block.last_op.arguments))


def _nothing(writer: Writer, operation: Operation) -> None:
    """A terminator: the operation around it has written what it does."""


def _place(writer: Writer, operation: Any) -> None:
    dimension = operation.dimension.value.data
    if writer.stage is None:
        value = call(PLACES[type(operation)], str(dimension))
    else:
        value = writer.stage.place(type(operation), dimension)
    writer.declare(operation.result, value)


def _sub_group_place(writer: Writer, operation: Any) -> None:
    portable, nvidia = SUB_GROUP_PLACES[type(operation)]
    if writer.vendor != "nvidia":
        writer.extensions.add("cl_khr_subgroups")
        writer.declare(operation.result, Expression(portable))
        return
    if nvidia == "lane_id()":
        _lane_function(writer)
    row = "get_local_id(1) + get_local_size(1) * get_local_id(2)"
    linear = f"(get_local_id(0) + get_local_size(0) * ({row}))" if writer.stage is None else "item"
    writer.declare(operation.result, Expression(nvidia.format(linear=linear)))


def _lane_function(writer: Writer) -> str:
    """A function that reads the lane's number from its special register."""
    body = ("uint lane;", 'asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));', "return lane;")
    return writer.library.add("lane_id", "uint", "void", *body)


def _sub_group_reduce(writer: Writer, operation: kernel.SubGroupReduceOp) -> None:
    kind, type = str(operation.kind.data), writer.type(operation.value)
    value = writer.value(operation.value)
    if writer.vendor != "nvidia":
        writer.extensions.add("cl_khr_subgroups")
        writer.declare(operation.result, call(f"sub_group_reduce_{kind}", value))
        return
    function = f"f{kind}" if type in ("float", "double") else kind
    name = f"reduce_{kind}_lanes_{type}"
    if type == "int" and kind != "add" and extrema_are_in_bits(writer, operation.value):
        function, name = extremum_in_bits(writer.library, kind, 1), f"{name}_in_bits"
    combine = "x + y" if kind == "add" else f"{function}(x, y)"
    lane = f"{_lane_function(writer)}()"
    lines = (
        "for (uint distance = 16; distance > 0; distance >>= 1) {",
        f"    {type} y = {_exchange_function(writer, type)}(x, {lane} ^ distance);",
        f"    x = {combine};",
        "}",
        "return x;",
    )
    writer.library.add(name, type, f"{type} x", *lines)
    writer.declare(operation.result, call(name, value))


def _exchange_function(writer: Writer, type: str) -> str:
    """A function that reads a 32-bit or 64-bit register of another lane, by `shfl.sync`."""
    register, bits = ("r", "uint") if type in ("float", "int") else ("l", "ulong")
    if bits == "uint":
        body = (
            "uint y;",
            'asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"'
            f' : "={register}"(y) : "r"(as_uint(x)), "r"(lane));',
            f"return as_{type}(y);",
        )
    else:
        body = (
            "uint2 y, bits = as_uint2(x);",
            'asm volatile("shfl.sync.idx.b32 %0, %2, %4, 0x1f, 0xffffffff;\\n"',
            '             "shfl.sync.idx.b32 %1, %3, %4, 0x1f, 0xffffffff;"',
            '             : "=r"(y.x), "=r"(y.y) : "r"(bits.x), "r"(bits.y), "r"(lane));',
            f"return as_{type}(y);",
        )
    return writer.library.add(f"from_lane_{type}", type, f"{type} x, uint lane", *body)


def _exchange(function: str) -> Row:
    def row(writer: Writer, operation: Any) -> None:
        value, lane = writer.value(operation.value), cast("uint", writer.value(operation.lane))
        if writer.vendor == "nvidia":
            function_name = _exchange_function(writer, writer.type(operation.value))
        else:
            writer.extensions.update(("cl_khr_subgroups", "cl_khr_subgroup_shuffle"))
            function_name = function
        writer.declare(operation.result, call(function_name, value, lane))

    return row


def _barrier(writer: Writer, operation: kernel.BarrierOp) -> None:
    writer.line(ALL_ITEMS if writer.stage is None else writer.stage.barrier)


def _await_stages(writer: Writer, operation: kernel.AwaitStagesOp) -> None:
    """A stage's wait for the stages before it. A launch of its own does not wait."""
    if writer.stage is not None and writer.stage.can_wait_late:
        writer.library.add(POLL, "void", AWAIT_PARAMETERS, *poll_lines())
        for line in writer.stage.await_lines():
            writer.line(line)


def _async_copy(writer: Writer, operation: kernel.AsyncCopyOp) -> None:
    source = offset(writer.pointer(operation.source), writer.value(operation.source_index))
    target = offset(writer.pointer(operation.target), writer.value(operation.target_index))
    arguments = [str(target), str(source)]
    assert isinstance(operation.source.type, MemRefType)
    if writer.types.memory(operation.source.type.element_type) == "half":
        arguments = [f"(__local ushort*)({target})", f"(const __global ushort*)({source})"]
    name = writer.fresh(operation.event.name_hint or "copied")
    writer.set(operation.event, Expression(name))
    count = operation.count.value.data
    writer.line(f"event_t {name} = async_work_group_copy({', '.join(arguments)}, {count}, 0);")


def _async_wait(writer: Writer, operation: kernel.AsyncWaitOp) -> None:
    for event in operation.events:
        writer.line(f"wait_group_events(1, &{writer.value(event)});")


CONTROL_ROWS: dict[type[Operation], Row] = {
    scf.ForOp: _for,
    scf.IfOp: _if,
    scf.YieldOp: _nothing,
    kernel.ReturnOp: _nothing,
    **dict.fromkeys(PLACES, _place),
    **dict.fromkeys(SUB_GROUP_PLACES, _sub_group_place),
    kernel.BarrierOp: _barrier,
    kernel.AwaitStagesOp: _await_stages,
    kernel.AsyncCopyOp: _async_copy,
    kernel.AsyncWaitOp: _async_wait,
    kernel.SubGroupReduceOp: _sub_group_reduce,
    kernel.SubGroupShuffleOp: _exchange("sub_group_shuffle"),
    kernel.SubGroupBroadcastOp: _exchange("sub_group_broadcast"),
}
