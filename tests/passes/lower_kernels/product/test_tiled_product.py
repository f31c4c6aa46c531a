"""Products in local-memory tiles, the GPU's form: every tiling, layout and edge.

The values are small integers, so that every sum is exact and results are compared bit by bit.
"""

import itertools
import re
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, scf, vector

from mgn.codegen.opencl.opencl import emit
from mgn.dialects.kernel import DEVICES, BarrierOp
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.schedules.product.local_tiles import STAGES
from tests.support.lower_fixture import (
    GPU_ON_CPU,
    Build,
    Run,
    check_all,
    fused_kernel,
    lowered,
    same_rounded,
    same_values,
)
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

TILINGS = [
    {"tile_down": 16, "tile_across": 16, "item_rows": 8, "item_columns": 8, "block_depth": 8},
    {"tile_down": 8, "tile_across": 16, "item_rows": 8, "item_columns": 8, "block_depth": 16},
    {"tile_down": 8, "tile_across": 8, "item_rows": 8, "item_columns": 4, "block_depth": 8},
    {"tile_down": 8, "tile_across": 8, "item_rows": 4, "item_columns": 4, "block_depth": 16},
    {"tile_down": 4, "tile_across": 8, "item_rows": 4, "item_columns": 4, "block_depth": 8},
    {"tile_down": 4, "tile_across": 4, "item_rows": 4, "item_columns": 4, "block_depth": 4},
    {"tile_down": 4, "tile_across": 2, "item_rows": 8, "item_columns": 8, "block_depth": 4},
]
SIZES = [(128, 128, 64), (67, 83, 101), (34, 132, 20), (5, 6, 7), (130, 129, 2), (32, 32, 512)]
SLICES = [1, 2, 4, 16]
AHEAD = [1, 2, 3]
LAYOUTS = list(itertools.product((False, True), repeat=2))


def integers(shape: tuple[int, ...], element: str, seed: int) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return values.astype(ELEMENT_TYPES[element].dtype)


def product_of(
    rows: int, columns: int, depth: int, turn_a: bool, turn_b: bool, element: str = "f32"
) -> tuple[Any, list[np.ndarray]]:
    """`neg(a) b`, so that there is something before the product, with its inputs."""
    a = (depth, rows) if turn_a else (rows, depth)
    b = (columns, depth) if turn_b else (depth, columns)
    kernel = fused_kernel(
        "contraction",
        [(element, a), (element, b)],
        lambda e, x, y: e.matmul(e.neg(x), y, transpose_a=turn_a, transpose_b=turn_b),
    )
    return kernel, [integers(a, element, 1), integers(b, element, 2)]


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("slices", SLICES)
@pytest.mark.parametrize("tiling", TILINGS, ids=lambda t: "x".join(map(str, t.values())))
def test_every_tiling_computes_the_same(
    tiling: dict[str, int],
    slices: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    items = tiling["tile_down"] * tiling["tile_across"] * slices
    if items > 256:
        pytest.skip("more work-items than a group of the test's device has")
    schedule = {**tiling, "local_memory": 1 << 18, "slices": slices}
    first = TILINGS.index(tiling) + SLICES.index(slices)
    runs: list[Run] = []
    for number, sizes in enumerate(SIZES[first % 2 :: 2]):
        turned, ahead = LAYOUTS[(first + number) % 4], AHEAD[(first + number) % len(AHEAD)]
        what = f"{sizes} {turned} {ahead}"
        given = {**schedule, "ahead": ahead}
        runs.append(Run(*product_of(*sizes, *turned), GPU_ON_CPU, given, what))
    check_all(cl_queue, runs, same_values)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("ahead", AHEAD)
@pytest.mark.parametrize("depth", [1, 8, 15, 16, 17, 31, 33, 49, 65])
def test_any_number_of_blocks_is_read_ahead(
    depth: int,
    ahead: int,
    cl_queue: Any,  # noqa: F811
) -> None:
    schedule = {**TILINGS[4], "block_depth": 4, "slices": 2, "ahead": ahead}
    runs = [Run(*product_of(33, 35, depth, *turned), GPU_ON_CPU, schedule) for turned in LAYOUTS]
    check_all(cl_queue, runs, same_values)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("ahead", AHEAD)
def test_operands_of_every_kind_are_read_ahead(ahead: int, cl_queue: Any) -> None:  # noqa: F811
    """Of one input or of several, with scales beside them, moved, padded, or one input twice."""
    rows, columns, depth = 36, 40, 52
    large, narrow = ("f32", (rows, depth)), ("f32", (depth,))
    right = ("f32", (depth, columns))
    cases: list[tuple[list[tuple[str, tuple[int, ...]]], Build]] = [
        (
            [large, large, narrow, right],
            lambda e, x, y, scale, b: e.matmul(e.mul(e.add(x, y), scale), b),
        ),
        ([large, right], lambda e, x, b: e.matmul(e.mul(x, e.neg(x)), b)),
        (
            [("f32", (rows, rows)), ("f32", (rows, columns))],
            lambda e, x, b: e.matmul(e.add(x, e.transpose(x, [1, 0])), b),
        ),
        (
            [("f32", (rows, depth - 2)), right],
            lambda e, x, b: e.matmul(e.pad(x, [(0, 0), (1, 1)], 0.0), b),
        ),
        (
            [("f32", (rows, depth + 4)), right],
            lambda e, x, b: e.matmul(e.slice(x, [0, 4], [rows, depth + 4], [1, 1]), b),
        ),
        (
            [("bf16", (rows, depth)), right],
            lambda e, x, b: e.matmul(e.cast(x, ELEMENT_TYPES["f32"]), b),
        ),
    ]
    schedule = {**TILINGS[4], "block_depth": 4, "slices": 2, "ahead": ahead}
    runs: list[Run] = []
    for number, (types, build) in enumerate(cases):
        arrays = [integers(shape, element, n) for n, (element, shape) in enumerate(types)]
        kernel = fused_kernel("contraction", types, build)
        runs.append(Run(kernel, arrays, GPU_ON_CPU, schedule, f"case {number}"))
    check_all(cl_queue, runs, same_values)


def test_what_is_read_ahead_is_computed_a_block_later() -> None:
    """The norm of a left operand does not wait for what was just read."""
    device = DEVICES["nvidia-h200"]
    types = [("f32", (256, 512)), ("f32", (512,)), ("f32", (512, 256))]
    kernel = fused_kernel("contraction", types, lambda e, x, scale, b: e.matmul(e.mul(x, scale), b))
    function = lowered(kernel, device, ahead=2)
    (outer,) = [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]
    x, written = function.body.block.args[0], list(outer.body.walk())
    scaled = [op for op in written if isinstance(op, arith.MulfOp)]
    assert scaled
    for op in scaled:
        for load in (value.owner for value in op.operands):
            if isinstance(load, vector.LoadOp) and load.base is x:
                between = written[written.index(load) : written.index(op)]
                assert any(isinstance(item, BarrierOp) for item in between)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_the_tiling_chosen_computes_every_layout(
    sizes: tuple[int, int, int],
    cl_queue: Any,  # noqa: F811
) -> None:
    runs = [Run(*product_of(*sizes, *turned), GPU_ON_CPU, what=str(turned)) for turned in LAYOUTS]
    check_all(cl_queue, runs, same_values)


@pytest.mark.parametrize("turn_b", [False, True], ids=["b", "b-turned"])
def test_every_element_type_is_tiled(turn_b: bool, cl_queue: Any) -> None:  # noqa: F811
    runs = [
        Run(*product_of(70, 72, 24, False, turn_b, element), GPU_ON_CPU, what=element)
        for element in ("f64", "f16", "bf16", "i64", "i32")
    ]
    check_all(cl_queue, runs, same_rounded)


def test_what_is_past_an_edge_is_not_multiplied(cl_queue: Any) -> None:  # noqa: F811
    """Zero times infinity would show."""
    kernel, (a, b) = product_of(9, 10, 5, False, False)
    b = b.copy()
    b[:, 3] = np.inf
    a = np.abs(a) + 1
    check_all(cl_queue, [Run(kernel, [a, b], GPU_ON_CPU)], same_values)


def test_the_epilogue_sees_each_result_at_its_place(cl_queue: Any) -> None:  # noqa: F811
    types = [("f32", (3, 70, 20)), ("f32", (20, 90)), ("f32", (90,)), ("f32", (3, 70, 90))]
    kernel = fused_kernel(
        "contraction",
        types,
        lambda e, x, y, bias, more: e.add(e.relu(e.add(e.matmul(x, y), bias)), more),
    )
    arrays = [integers(shape, "f32", n) for n, (_, shape) in enumerate(types)]
    check_all(cl_queue, [Run(kernel, arrays, GPU_ON_CPU)], same_values)


def accesses(text: str, lane: int) -> tuple[list[int], list[int]]:
    """The places in global memory that a work-item of the first group loads from before the first
    barrier, and those in local memory that it stores to.
    """
    names: dict[str, int] = {}
    loads: list[int] = []
    stores: list[int] = []
    head = text[text.index("int v = get_group_id(0);") :].split("barrier(")[0]
    for line in map(str.strip, head.splitlines()):
        said = line.replace("get_group_id(0)", "0").replace("get_local_id(0)", str(lane))
        said = said.replace("/", "//").rstrip(";")
        if found := re.fullmatch(r"int (\w+) = (.*)", said):
            names[found[1]] = eval(found[2], {}, names)
        elif found := re.fullmatch(r"float4 \w+ = .*\(in\d \+ (.*)\)", said):
            loads.append(eval(found[1], {}, names))
        elif found := re.fullmatch(r"buffer\[(.*?)\] = .*", said):
            stores.append(eval(found[1], {}, names))
    return loads, stores


@pytest.mark.parametrize("tiling", TILINGS[:3], ids=str)
def test_a_warp_transposes_whole_lines_and_uses_every_bank(tiling: dict[str, int]) -> None:
    device = DEVICES["nvidia-h200"]
    kernel, _ = product_of(256, 256, 512, False, True)
    numbers = {**tiling, "slices": 32 // tiling["block_depth"]}
    if numbers["slices"] * tiling["tile_down"] * tiling["tile_across"] > 1024:
        numbers["slices"] = 1
    text = emit(lowered(kernel, device, **numbers, local_memory=1 << 18), device)
    lanes = [accesses(text, lane) for lane in range(32)]
    steps = numbers["slices"] * tiling["block_depth"]
    for places in zip(*(loads for loads, _ in lanes), strict=True):
        assert len({place // 32 for place in places}) == 32 // min(steps // 4, 8)
    assert all(loads and stores for loads, stores in lanes)
    for places in zip(*(stores for _, stores in lanes), strict=True):
        assert {place % 32 for place in places} == set(range(32))


def test_a_large_product_moves_aligned_vectors_and_meets_once_a_block() -> None:
    device = DEVICES["nvidia-h200"]
    kernel, _ = product_of(1024, 1024, 1024, False, True)
    function = lowered(kernel, device)
    vectors = [op for op in function.walk() if isinstance(op, vector.LoadOp | vector.StoreOp)]
    assert vectors and all("alignment" in op.attributes for op in vectors)
    (outer,) = [op for op in function.body.block.ops if isinstance(op, scf.ForOp)]
    assert len([op for op in outer.body.walk() if isinstance(op, BarrierOp)]) == STAGES
    text = emit(function, device)
    assert "*(const __global float4*)(" in text
    assert "*(const __local float4*)(" in text


def test_rows_that_are_no_multiple_of_a_vector_are_read_by_elements() -> None:
    device = DEVICES["nvidia-h200"]
    kernel, _ = product_of(1024, 1024, 1023, False, True)
    assert "__global float4*)(in" not in emit(lowered(kernel, device), device)


def test_a_small_product_is_cut_along_the_shared_axis() -> None:
    device = DEVICES["nvidia-h200"]
    kernel, _ = product_of(128, 576, 576, False, True)
    function = lowered(kernel, device)
    groups = function.global_sizes[0] // function.local_sizes[0]
    assert groups >= device.compute_units // 2
    results_of_an_item = 128 * 576 // function.global_sizes[0]
    assert function.local_sizes[0] >= 128
    assert results_of_an_item < 64
