"""plan-memory shares memory between values that never live together, and only between those."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType, f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import PassFailedException

from mgn.dialects import plan
from mgn.dialects.fusion import LaunchOp
from mgn.dialects.kernel import DEVICES, FuncOp
from mgn.dialects.kernel import ReturnOp as KernelReturnOp
from mgn.dialects.kernel.buffers import allow_in_place, start_as
from mgn.dialects.mgn.structure import GraphOp, ParamOp, ReadOp, ReturnOp
from mgn.dialects.plan import buffers as plan_buffers
from mgn.dialects.plan import steps as plan_steps
from mgn.passes.arena import Interval, pack
from mgn.passes.plan_memory import PlanMemory


def kernel(name: str, sizes: list[int], writes: int, in_place: bool = False) -> FuncOp:
    """A kernel whose last `writes` arguments are written; in place it may overwrite its first."""
    accesses = ["read"] * (len(sizes) - writes) + ["write"] * writes
    arguments = [(MemRefType(f32, [n]), a) for n, a in zip(sizes, accesses, strict=True)]
    function = FuncOp(name, arguments, [1])
    function.body.block.add_op(KernelReturnOp())
    if in_place:
        allow_in_place(function, [(0, len(sizes) - writes)])
    return function


def planned(module: ModuleOp, **options: int) -> plan.ProgramOp:
    module.verify()
    PlanMemory(**options).apply(Context(), module)
    module.verify()
    return next(op for op in module.body.block.ops if isinstance(op, plan.ProgramOp))


@st.composite
def intervals(draw: st.DrawFn) -> list[Interval]:
    count = draw(st.integers(1, 40))
    return [
        Interval(draw(st.integers(0, 3000)), first, first + draw(st.integers(0, 12)))
        for first in (draw(st.integers(0, 30)) for _ in range(count))
    ]


@settings(max_examples=150, deadline=None)
@given(intervals(), st.sampled_from([256, 512]))
def test_no_two_values_that_live_together_overlap(items: list[Interval], alignment: int) -> None:
    layout = pack(items, alignment)
    assert len(layout.offsets) == len(items)
    for i, (a, at) in enumerate(zip(items, layout.offsets, strict=True)):
        assert at % alignment == 0 and at + a.size <= layout.size
        for b, bt in list(zip(items, layout.offsets, strict=True))[:i]:
            together = a.first <= b.last and b.first <= a.last
            assert (
                not together or at + a.size <= bt or bt + b.size <= at or not a.size or not b.size
            )
    live = [
        sum(item.size for item in items if item.first <= step <= item.last) for step in range(50)
    ]
    assert max(live) <= layout.lower_bound <= layout.size
    assert layout.size <= sum(-(-max(item.size, 1) // alignment) * alignment for item in items)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_graphs_plan_into_programs_that_the_verifier_accepts(data: st.DataObject) -> None:
    sizes = [16, 64, 100, 1000]
    block = Block(arg_types=[TensorType(f32, [64])])
    values: list[SSAValue] = [block.args[0]]
    functions: dict[str, FuncOp] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        inputs = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        outputs = data.draw(st.lists(st.sampled_from(sizes), min_size=1, max_size=2))
        in_place = data.draw(st.booleans())
        shape = [value.type.get_shape()[0] for value in inputs] + outputs
        name = f"k{'_'.join(map(str, shape))}_{len(outputs)}_{in_place}"
        functions.setdefault(name, kernel(name, shape, len(outputs), in_place))
        launch = LaunchOp(name, inputs, [TensorType(f32, [size]) for size in outputs])
        block.add_op(launch)
        values += launch.outputs
    returned = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    block.add_op(ReturnOp(returned))
    names = [f"y{i}" for i in range(len(returned))]
    graph = GraphOp("g", ["x"], names, Region(block))
    program = planned(ModuleOp([*functions.values(), graph]))
    bound, total = program.statistic("lower_bound"), program.statistic("tensor_bytes")
    assert bound is not None and total is not None
    assert bound <= program.arena_bytes <= total
    assert [
        op.label.data for op in program.body.block.ops if isinstance(op, plan_steps.OutputOp)
    ] == names


def test_an_input_that_is_read_twice_by_a_launch_is_not_written_in_place() -> None:
    block = Block(arg_types=[TensorType(f32, [64])])
    first = LaunchOp("copy", [block.args[0]], [TensorType(f32, [64])])
    second = LaunchOp("mix", [first.outputs[0], first.outputs[0]], [TensorType(f32, [64])])
    block.add_ops([first, second, ReturnOp(list(second.outputs))])
    functions = [kernel("copy", [64, 64], 1), kernel("mix", [64, 64, 64], 1, in_place=True)]
    program = planned(ModuleOp([*functions, GraphOp("g", ["x"], ["y"], Region(block))]))
    views = [op for op in program.body.block.ops if isinstance(op, plan_buffers.ViewOp)]
    assert [view.start for view in views] == [0, 256]


def test_a_gpu_gets_offsets_that_its_driver_takes() -> None:
    block = Block(arg_types=[TensorType(f32, [4])])
    first = LaunchOp("copy", [block.args[0]], [TensorType(f32, [4])])
    second = LaunchOp("copy", [first.outputs[0]], [TensorType(f32, [4])])
    block.add_ops([first, second, ReturnOp(list(second.outputs))])
    module = ModuleOp([kernel("copy", [4, 4], 1), GraphOp("g", ["x"], ["y"], Region(block))])
    module.attributes["mgn.device"] = DEVICES["nvidia-h200"].to_attribute()
    program = planned(module)
    assert (program.alignment_bytes, program.arena_bytes) == (512, 1024)


def chain(length: int, size: int, device: str) -> plan.ProgramOp:
    """Launches that each read what the one before wrote."""
    tensor = TensorType(f32, [size])
    block = Block(arg_types=[tensor])
    current = block.args[0]
    for _ in range(length):
        launch = LaunchOp("copy", [current], [tensor])
        block.add_op(launch)
        current = launch.outputs[0]
    block.add_op(ReturnOp([current]))
    module = ModuleOp([kernel("copy", [size, size], 1), GraphOp("g", ["x"], ["y"], Region(block))])
    module.attributes["mgn.device"] = DEVICES[device].to_attribute()
    return planned(module)


@pytest.mark.parametrize(("size", "values"), [(64, 4), (1 << 15, 2)])
def test_small_values_stay_where_launches_become_stages(size: int, values: int) -> None:
    """So the next two launches write elsewhere, and need no barrier before them."""
    assert chain(9, size, "nvidia-h200").arena_bytes == values * max(4 * size, 512)
    assert chain(9, size, "cpu").arena_bytes == 2 * 4 * size


def test_ten_thousand_launches_are_planned_within_seconds() -> None:
    tensor = TensorType(f32, [64])
    block = Block(arg_types=[tensor])
    previous = current = block.args[0]
    for _ in range(10_000):
        launch = LaunchOp("add", [current, previous], [tensor])
        block.add_op(launch)
        previous, current = current, launch.outputs[0]
    block.add_op(ReturnOp([current]))
    graph = GraphOp("g", ["x"], ["y"], Region(block))
    module = ModuleOp([kernel("add", [64, 64, 64], 1), graph])
    start = time.process_time()
    PlanMemory().apply(Context(), module)
    assert time.process_time() - start < 10
    program = list(module.ops)[1]
    assert isinstance(program, plan.ProgramOp)
    assert program.arena_bytes == 3 * 256
    assert program.statistic("tensor_bytes") == 10_000 * 256


def test_a_graph_that_is_not_lowered_is_refused_by_name() -> None:
    block = Block(arg_types=[TensorType(f32, [4])])
    block.add_op(kernel("inner", [4, 4], 1))
    block.add_op(ReturnOp([block.args[0]]))
    module = ModuleOp([GraphOp("g", ["x"], ["y"], Region(block))])
    with pytest.raises(PassFailedException, match=r"kernel\.func is no launch"):
        PlanMemory().apply(Context(), module)
    with pytest.raises(PassFailedException, match="multiple of 256"):
        PlanMemory(alignment=64).apply(Context(), ModuleOp([]))


def parts_written(read_later: bool) -> plan.ProgramOp:
    """A launch that writes a part of what another one made, which may be read after it."""
    block = Block(arg_types=[TensorType(f32, [64])])
    first = LaunchOp("make", [block.args[0]], [TensorType(f32, [64])])
    second = LaunchOp("write", list(first.outputs), [TensorType(f32, [64])])
    results = [*second.outputs, *(first.outputs if read_later else ())]
    block.add_ops([first, second, ReturnOp(results)])
    functions = [kernel("make", [64, 64], 1), kernel("write", [64, 64], 1, in_place=True)]
    start_as(functions[1], [(0, 1)])
    names = [f"y{n}" for n in range(len(results))]
    return planned(ModuleOp([*functions, GraphOp("g", ["x"], names, Region(block))]))


def steps_of(program: plan.ProgramOp) -> list[str]:
    steps = plan_steps.LaunchOp | plan_steps.CopyOp
    return [op.name for op in program.body.block.ops if isinstance(op, steps)]


def test_a_part_is_written_where_the_rest_of_a_result_lies() -> None:
    program = parts_written(False)
    assert steps_of(program) == ["plan.launch", "plan.launch"]
    assert program.arena_bytes == 256


def test_what_is_read_later_is_copied_before_a_part_of_it_is_written() -> None:
    program = parts_written(True)
    assert steps_of(program) == ["plan.launch", "plan.copy", "plan.launch"]
    assert program.arena_bytes == 512


def test_a_part_of_what_parameters_decide_is_written_in_every_run() -> None:
    block = Block()
    whole = ReadOp("w", TensorType(f32, [64]))
    second = LaunchOp("write", [whole.result], [TensorType(f32, [64])])
    third = LaunchOp("make", list(second.outputs), [TensorType(f32, [64])])
    block.add_ops([whole, second, third, ReturnOp(list(third.outputs))])
    functions = [kernel("make", [64, 64], 1), kernel("write", [64, 64], 1, in_place=True)]
    start_as(functions[1], [(0, 1)])
    parameter = ParamOp("w", TensorType(f32, [64]))
    program = planned(ModuleOp([parameter, *functions, GraphOp("g", [], ["y"], Region(block))]))
    assert steps_of(program) == ["plan.copy", "plan.launch", "plan.launch"]
