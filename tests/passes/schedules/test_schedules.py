"""Schedules are values: chosen for a body on a device, written into the IR, and only executed."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import DEVICES, Device, FuncOp, Kernel
from mgn.passes.lower_kernels import LowerKernels
from mgn.passes.schedules.choose import schedule_for, schedules_of
from mgn.passes.schedules.choose_schedules import ChooseSchedules
from mgn.passes.schedules.core.schedule import VARIANT
from tests.support.lower_fixture import CPU, GPU_ON_CPU, fused_kernel, pieces
from tests.support.programs import context

H200 = DEVICES["nvidia-h200"]


def _product(element: str, *sizes: int, turned: bool = False) -> FusedKernelOp:
    rows, columns, depth = sizes
    right = (columns, depth) if turned else (depth, columns)
    return fused_kernel(
        "contraction",
        [(element, (rows, depth)), (element, right)],
        lambda e, x, y: e.matmul(x, y, transpose_a=False, transpose_b=turned),
    )


def _on_unit(*sizes: int) -> FusedKernelOp:
    (fused,) = pieces(_product("bf16", *sizes))
    return fused


def _attention(element: str, rows: int = 256, heads: int = 1) -> FusedKernelOp:
    types = [(element, (rows, 64 * heads))] * 3
    values = {"heads": heads, "kv_heads": heads, "scale": 0.125}
    fused = fused_kernel("attention", types, lambda e, *x: e.call("attention", *x, **values))
    return pieces(fused)[0] if element == "bf16" else fused


def _rows(axis: int) -> FusedKernelOp:
    return fused_kernel("reduction", [("f32", (512, 300))], lambda e, x: e.sum(x, axis=[axis]))


def _transpose(*shape: int) -> FusedKernelOp:
    return fused_kernel("pointwise", [("f32", shape)], lambda e, x: e.transpose(x, perm=[1, 0]))


Case = tuple[Callable[[], FusedKernelOp], Device, str, dict[str, int]]

CASES: dict[str, Case] = {
    "a large product": (
        lambda: _product("f32", 512, 512, 512),
        H200,
        "tiles",
        {"tile_down": 4, "tile_across": 8, "item_rows": 8, "item_columns": 8, "slices": 4},
    ),
    "one on a matrix unit": (
        lambda: _on_unit(4096, 4096, 512),
        H200,
        "matrix tiles",
        {"tile_down": 8, "item_rows": 16, "item_columns": 256, "groups": 1},
    ),
    "one of a row, rounded": (
        lambda: fused_kernel(
            "contraction",
            [("f32", (1, 4096)), ("f32", (512, 4096))],
            lambda e, x, y: e.matmul(e.round_tf32(x), e.round_tf32(y), transpose_b=True),
        ),
        H200,
        "few rows",
        {"along": 1},
    ),
    "one of two rows": (lambda: _product("f32", 2, 4096, 512), H200, "few rows", {"along": 0}),
    "one of a column": (lambda: _product("f32", 512, 1, 300), H200, "sums", {"by_row": 1}),
    "one on a CPU": (
        lambda: _product("f32", 512, 512, 512),
        CPU,
        "packed panels",
        {"tile_rows": 12, "tile_vectors": 2, "copies_right": 1},
    ),
    "one of dot products": (
        lambda: _product("f32", 2, 64, 512, turned=True),
        CPU,
        "dots",
        {"tile_rows": 2, "tile_columns": 4},
    ),
    "one of dot products with weights of another shape": (
        lambda: fused_kernel(
            "contraction",
            [("f32", (2, 512)), ("f32", (64, 8, 64, 1))],
            lambda e, x, w: e.matmul(x, e.reshape(w, [64, 512]), transpose_b=True),
        ),
        CPU,
        "dots",
        {"tile_rows": 2, "tile_columns": 4},
    ),
    "attention": (lambda: _attention("f32"), H200, "tiles", {"tile_down": 4}),
    "attention on a matrix unit": (
        lambda: _attention("bf16", rows=2048, heads=32),
        H200,
        "matrix tiles",
        {"tile_down": 4, "tile_keys": 64},
    ),
    "few rows of attention on a matrix unit": (
        lambda: _attention("bf16"),
        H200,
        "matrix tiles",
        {"tile_down": 1, "tile_keys": 256},
    ),
    "attention on a CPU": (lambda: _attention("f32"), CPU, "blocks", {"tile_rows": 8}),
    "rows of a GPU": (lambda: _rows(1), H200, "groups", {"by_row": 1}),
    "rows of a CPU": (lambda: _rows(1), CPU, "along rows", {"width": 16, "side_by_side": 1}),
    "columns of a CPU": (lambda: _rows(0), CPU, "across rows", {"width": 16}),
    "a scan on a GPU": (
        lambda: fused_kernel("scan", [("f32", (64, 1000))], lambda e, x: e.running_sum(x, axis=1)),
        H200,
        "groups",
        {"width": 4, "shares": 256},
    ),
    "a sort on a CPU": (
        lambda: fused_kernel("order", [("f32", (64, 300))], lambda e, x: e.sort_runs(x, x, axis=1)),
        CPU,
        "lanes",
        {"slots": 512, "width": 8},
    ),
    "a transpose": (lambda: _transpose(512, 256), H200, "tiles", {"axis": 0, "tile_rows": 64}),
    "one of odd lines": (lambda: _transpose(511, 257), H200, "ragged tiles", {"axis": 0}),
    "one on a CPU in squares": (lambda: _transpose(512, 256), CPU, "squares", {"width": 16}),
}


def _module_of(fused: FusedKernelOp, device: Device) -> ModuleOp:
    module = fused.parent_op()
    assert isinstance(module, ModuleOp)
    module.attributes["mgn.device"] = device.to_attribute()
    return module


def _functions(module: ModuleOp) -> list[str]:
    LowerKernels().apply(context(), module)
    return [str(op) for op in module.walk() if isinstance(op, FuncOp)]


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_names_its_variant_and_its_numbers(name: str) -> None:
    make, device, variant, numbers = CASES[name]
    values: dict[str, Any] = dict(schedule_for(make(), device).values)
    assert values[VARIANT] == variant
    assert {entry: values[entry] for entry in numbers} == numbers


@pytest.mark.parametrize("seed", range(20))
def test_groups_of_few_rows_fill_a_sub_group_where_rows_have_as_many_vectors(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, length = int(rng.integers(1, 3)), 2 * int(rng.integers(16, 70)) + 1
    fused = fused_kernel("reduction", [("f32", (rows, length))], lambda e, x: e.sum(x, axis=[1]))
    values: dict[str, Any] = dict(schedule_for(fused, H200).values)
    assert values[VARIANT] == "groups"
    assert values["rows"] * values["shares"] % H200.sub_group_size == 0


@pytest.mark.parametrize("name", CASES)
def test_a_scheduled_kernel_is_lowered_alike_from_its_text_and_on_any_device(name: str) -> None:
    make, device, _, _ = CASES[name]
    module = _module_of(make(), device)
    ChooseSchedules().apply(context(), module)
    known = context()
    known.load_dialect(Kernel)
    known.load_dialect(Test)
    read = Parser(known, str(module)).parse_module()
    other = CPU if device is H200 else H200
    read.attributes["mgn.device"] = other.to_attribute()
    assert _functions(read) == _functions(module)


@pytest.mark.parametrize("name", CASES)
def test_the_schedule_with_the_least_time_is_chosen(name: str) -> None:
    make, device, _, _ = CASES[name]
    schedules = schedules_of(make(), device)
    times = [schedule.seconds for schedule in schedules]
    assert times == sorted(times)
    assert schedule_for(make(), device) == schedules[0].attribute
    attributes = [schedule.attribute for schedule in schedules]
    assert len(set(attributes)) == len(attributes)


@pytest.mark.parametrize("name", CASES)
def test_each_schedule_is_chosen_where_its_variant_and_its_numbers_are_fixed(name: str) -> None:
    make, device, _, _ = CASES[name]
    fused = make()
    for schedule in schedules_of(fused, device):
        fixed = {VARIANT: str(schedule.variant), **schedule.numbers}
        assert schedule_for(fused, device, **fixed) == schedule.attribute


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"variant": "tilse"}, "the schedule's variant is 'tilse', not 'sums', 'few rows', 'dots'"),
        ({"variant": "tiles", "tile_down": 4}, "the schedule says no 'tile_across'"),
    ],
)
def test_a_schedule_that_no_template_has_is_refused(entries: Any, message: str) -> None:
    fused = _product("f32", 64, 64, 64)
    fused.schedule = ScheduleAttr.of(form="gpu", **entries)
    with pytest.raises(VerifyException, match=message):
        _functions(_module_of(fused, H200))


def test_entries_written_by_hand_are_fixed_and_the_others_are_chosen() -> None:
    fused = _product("f32", 512, 512, 512)
    fused.schedule = ScheduleAttr.of(slices=2)
    module = _module_of(fused, GPU_ON_CPU)
    ChooseSchedules().apply(context(), module)
    assert fused.schedule is not None
    assert fused.schedule == schedule_for(fused, GPU_ON_CPU, slices=2)
    assert (fused.schedule.values["slices"], fused.schedule.values[VARIANT]) == (2, "tiles")
