"""The pass: shared functions, names, places in the source, in-place pairs, forms, time."""

import time
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr
from xdsl.ir import Operation

from mgn.dialects.fusion import FusedKernelOp, LaunchOp
from mgn.dialects.kernel import DEVICES, BarrierOp, FuncOp
from mgn.dialects.kernel.buffers import in_place_pairs
from mgn.passes.lower_kernels import LowerKernels, lower_kernel
from mgn.passes.schedules.choose import schedule_for
from mgn.passes.schedules.choose_schedules import ChooseSchedules
from tests.support.lower_fixture import (
    CPU,
    FORMS,
    GPU_ON_CPU,
    Run,
    check_all,
    fused_kernel,
    lowered,
    same_values,
)
from tests.support.opencl_fixture import cl_queue  # noqa: F401
from tests.support.programs import context, parse

LAYER = """
    %h{n} = fusion.kernel contraction (%a = %{x} : tensor<64x96xf32>,
        %b = %w : tensor<96x96xf32>) -> (tensor<64x96xf32>) {{
      %m = mgn.matmul(%a, %b) : (tensor<64x96xf32>, tensor<96x96xf32>) -> tensor<64x96xf32>
      %r = mgn.gelu(%m) : tensor<64x96xf32>
      fusion.return %r : tensor<64x96xf32>
    }}
    %x{n} = fusion.kernel reduction (%a = %h{n} : tensor<64x96xf32>) -> (tensor<64x96xf32>) {{
      %s = mgn.sum(%a) axis = [1], keepdims = true : (tensor<64x96xf32>) -> tensor<64x1xf32>
      %d = mgn.sub(%a, %s) : (tensor<64x96xf32>, tensor<64x1xf32>) -> tensor<64x96xf32>
      fusion.return %d : tensor<64x96xf32>
    }}"""


def layers(count: int) -> ModuleOp:
    body = "".join(LAYER.format(n=n, x=f"x{n - 1}" if n else "x") for n in range(count))
    return parse(
        'mgn.graph @g("x" = %x : tensor<64x96xf32>, "w" = %w : tensor<96x96xf32>)'
        ' -> ("y" : tensor<64x96xf32>) {'
        f"{body}\n  mgn.return %x{count - 1} : tensor<64x96xf32>\n}}"
    )


def test_identical_layers_share_their_functions() -> None:
    module = layers(30)
    ChooseSchedules().apply(context(), module)
    LowerKernels().apply(context(), module)
    module.verify()
    functions = [op.sym_name.data for op in module.walk() if isinstance(op, FuncOp)]
    assert functions == ["contraction_matmul_gelu_0", "reduction_sum_sub_0"]
    launches = [op.kernel_name for op in module.walk() if isinstance(op, LaunchOp)]
    assert launches == functions * 30
    assert not any(isinstance(op, FusedKernelOp) for op in module.walk())


def test_a_kernel_does_not_take_the_name_of_a_graph() -> None:
    module = layers(1)
    graph = module.ops.first
    assert graph is not None
    graph.properties["sym_name"] = StringAttr("reduction_sum_sub_0")
    LowerKernels().apply(context(), module)
    module.verify()
    functions = [op.sym_name.data for op in module.walk() if isinstance(op, FuncOp)]
    assert functions == ["contraction_matmul_gelu_0", "reduction_sum_sub_1"]


def test_three_hundred_kernels_of_few_structures_are_lowered_in_under_half_a_second() -> None:
    module = layers(175)
    ChooseSchedules().apply(context(), module)
    best = 10.0
    for _ in range(2):
        clone = module.clone()
        start = time.process_time()
        LowerKernels().apply(context(), clone)
        best = min(best, time.process_time() - start)
    assert best < 0.5


def test_different_schedules_do_not_share_a_function() -> None:
    module = layers(1)
    other = layers(1)
    for op in [*module.walk(), *other.walk()]:
        if isinstance(op, FusedKernelOp):
            op.schedule = schedule_for(
                op, CPU if op.parent_op() in list(module.ops) else GPU_ON_CPU
            )
    graph = other.ops.first
    assert graph is not None
    graph.detach()
    graph.properties["sym_name"] = StringAttr("other")
    module.body.block.add_op(graph)
    LowerKernels().apply(context(), module)
    assert len([op for op in module.walk() if isinstance(op, FuncOp)]) == 4


def test_operations_keep_the_place_they_came_from() -> None:
    place = FileLineColLoc(StringAttr("model.mgn"), IntAttr(7), IntAttr(3))
    kernel = fused_kernel("pointwise", [("f32", (64,))], lambda b, x: b.exp(x))
    for op in kernel.walk():
        op.location = place
    function = lowered(kernel, CPU)
    assert function.location == place
    exponentials = [op for op in function.walk() if op.name == "math.exp"]
    assert exponentials and all(op.location == place for op in exponentials)


@pytest.mark.parametrize(
    ("what", "build", "pairs"),
    [
        ("both inputs at the element written", lambda b, x, y: b.add(x, y), {(0, 2), (1, 2)}),
        ("one input read elsewhere", lambda b, x, y: b.add(x, b.transpose(y, [1, 0])), {(0, 2)}),
        ("read here and elsewhere", lambda b, x, y: b.add(b.flip(x, axis=[0]), x), set()),
        ("reshaped in order", lambda b, x, y: b.reshape(b.mul(x, 2.0), [256]), {(0, 2)}),
        ("another element size", lambda b, x, y: b.cast(b.add(x, y), "f64"), set()),
        ("a row for all", lambda b, x, y: b.add(x, b.slice(y, [0, 0], [1, 16])), {(0, 2)}),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_a_kernel_may_work_in_place_only_on_what_it_reads_where_it_writes(
    what: str, build: Any, pairs: set[tuple[int, int]]
) -> None:
    kernel = fused_kernel("pointwise", [("f32", (16, 16))] * 2, build)
    for device in FORMS.values():
        function = lowered(kernel, device)
        assert in_place_pairs(function) == pairs
        assert (function.noalias is None) == bool(pairs)


def test_rows_that_overlap_are_never_in_place() -> None:
    kernel = fused_kernel(
        "pointwise", [("f32", (9, 37)), ("f32", (37,))], lambda b, x, y: b.add(x, y)
    )
    assert in_place_pairs(lowered(kernel, CPU)) == frozenset()


def operations(function: FuncOp, cls: type[Operation]) -> int:
    return sum(isinstance(op, cls) for op in function.walk())


def test_the_form_follows_the_device() -> None:
    kernel = fused_kernel("reduction", [("f32", (64, 4096))], lambda b, x: b.sum(x, axis=1))
    cpu, gpu = lowered(kernel, CPU), lowered(kernel, DEVICES["nvidia-h200"])
    assert cpu.local_sizes == (1, 1, 1) and operations(cpu, BarrierOp) == 0
    assert gpu.local_sizes == (512, 1, 1) and gpu.global_sizes == (64 * 512, 1, 1)
    assert operations(gpu, BarrierOp) > 0


def test_many_long_rows_of_which_only_totals_are_written_take_fewer_work_items() -> None:
    h200 = DEVICES["nvidia-h200"]
    groups: dict[tuple[int, int], tuple[int, int, int]] = {}
    for rows, length in ((4096, 4096), (1024, 4096), (4096, 2048)):
        kernel = fused_kernel("reduction", [("f32", (rows, length))], lambda b, x: b.sum(x, axis=1))
        groups[rows, length] = lowered(kernel, h200).local_sizes
    assert [sizes[0] for sizes in groups.values()] == [128, 512, 256]


def test_a_diamond_is_computed_once() -> None:
    def build(b: Any, x: Any) -> Any:
        for _ in range(20):
            x = b.add(x, b.mul(x, x))
        return x

    kernel = fused_kernel("pointwise", [("f32", (64,))], build)
    function = lowered(kernel, CPU)
    assert sum(op.name in ("arith.addf", "arith.mulf") for op in function.walk()) == 40


def test_a_softmax_on_a_gpu_reads_each_element_once() -> None:
    def softmax(b: Any, x: Any) -> Any:
        e = b.exp(b.sub(x, b.max_reduce(x, axis=-1, keepdims=True)))
        return b.div(e, b.sum(e, axis=-1, keepdims=True))

    kernel = fused_kernel("reduction", [("f32", (64, 4096))], softmax)
    function = lowered(kernel, DEVICES["nvidia-h200"])
    per_item = 4096 // (512 * 4)
    assert sum(op.name == "vector.load" for op in function.walk()) == per_item
    assert sum(op.name == "math.exp" for op in function.walk()) == per_item
    assert operations(function, scf.ForOp) == 0


def test_kernels_that_write_nothing_do_nothing() -> None:
    kernel = fused_kernel("pointwise", [("f32", (0, 4))], lambda b, x: b.exp(x))
    function = lowered(kernel, CPU)
    assert [op.name for op in function.body.block.ops] == ["kernel.return"]


def test_a_deep_chain_is_lowered() -> None:
    def build(b: Any, x: Any) -> Any:
        for _ in range(600):
            x = b.neg(b.exp(x))
        return x

    kernel = fused_kernel("pointwise", [("f32", (64,))], build)
    function = lower_kernel(kernel, "deep", schedule_for(kernel, CPU).values)
    assert sum(op.name == "math.exp" for op in function.walk()) == 600


@pytest.mark.parametrize("chunk", [16, 100, 4096])
def test_every_vector_width_and_chunk_computes_the_same(chunk: int, cl_queue: Any) -> None:  # noqa: F811
    array = np.random.default_rng(0).standard_normal((7, 53)).astype(np.float32)
    kernel = fused_kernel("pointwise", [("f32", (7, 53))], lambda b, x: b.mul(b.flip(x, [0]), 2.0))
    runs = [
        Run(kernel, [array], CPU, {"lanes": lanes, "chunk": chunk}, f"{lanes} lanes")
        for lanes in (1, 2, 4, 8, 16)
    ]
    check_all(cl_queue, runs, same_values)


@pytest.mark.parametrize(
    "schedule",
    [
        {"tile_rows": 4, "tile_vectors": 1, "lanes": 4},
        {"tile_rows": 8, "tile_vectors": 2, "block_depth": 16},
        {"block_rows": 16, "block_columns": 64, "block_depth": 32},
        {"tile_rows": 5, "tile_vectors": 3, "units": 1},
        {"local_memory": 32768},
    ],
    ids=str,
)
def test_every_blocking_of_a_product_computes_the_same(
    schedule: dict[str, int],
    cl_queue: Any,  # noqa: F811
) -> None:
    random, runs = np.random.default_rng(0), list[Run]()
    for transpose_b in (False, True):
        a = random.integers(-4, 5, (67, 83)).astype(np.float32)
        b = random.integers(-4, 5, (101, 83) if transpose_b else (83, 101)).astype(np.float32)
        kernel = fused_kernel(
            "contraction",
            [("f32", a.shape), ("f32", b.shape)],
            lambda e, x, y, t=transpose_b: e.matmul(e.neg(x), y, transpose_b=t),
        )
        runs.append(Run(kernel, [a, b], CPU, schedule, f"transpose_b {transpose_b}"))
    check_all(cl_queue, runs, same_values)


def test_neighbours_in_one_part_of_a_concat_are_read_together() -> None:
    def halves_turned(b: Any, x: Any) -> Any:
        low, high = b.slice(x, [0, 0], [16, 32], [1, 1]), b.slice(x, [0, 32], [16, 64], [1, 1])
        return b.concat([b.neg(high), low], axis=1)

    kernel = fused_kernel("pointwise", [("f32", (16, 64))], halves_turned)
    names = [op.name for op in lowered(kernel, DEVICES["nvidia-h200"]).walk()]
    assert names.count("vector.load") == 2
    assert not {"kernel.gather", "memref.load"} & set(names)
