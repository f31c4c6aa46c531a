"""Scatters: every variant in both forms, against sums in the order of ids."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import DEVICES, BarrierOp
from mgn.dialects.mgn.operation import OPERATIONS, Kind, TensorOp
from mgn.dialects.types import ELEMENT_TYPES, Family
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.schedules.choose import schedule_for
from mgn.passes.schedules.scatter_work import ScatterVariant
from tests.passes.lower_kernels.test_differential import ELEMENTS, EPSILON, assert_near, draw
from tests.support.lower_fixture import (
    CPU,
    GPU_ON_CPU,
    Run,
    check_all,
    expected,
    forms_of,
    fused_kernel,
    lowered,
    pieces,
    run,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401
from tests.support.spirv_fixture import also_as_spirv  # noqa: F401

NUMBERS = [name for name in ELEMENTS if ELEMENT_TYPES[name].family is not Family.BOOL]

SHAPES: list[tuple[tuple[int, ...], int, int, bool]] = [
    ((5,), 0, 3, True), ((7, 8), 0, 4, False), ((7, 8), 1, 9, False), ((7, 8), 1, 3, True),
    ((7, 8), 0, 11, True), ((4, 5, 6), 1, 70, False), ((4, 5, 6), 1, 7, True),
    ((1, 3), 0, 9, False), ((33, 16), 0, 100, False), ((3, 1, 5), 1, 4, True),
    ((2, 3, 37), 2, 5, False),
    ((6, 48), 0, 2100, False), ((9, 1024), 0, 13, False), ((0, 3), 1, 2, False),
    ((3, 5), 0, 0, False), ((64,), 0, 1, True),
]  # fmt: skip
"""The result's shape, the axis, how many ids, and whether each element has an id of its own."""


def arrays_of(
    element: str, ids: str, shape: Sequence[int], axis: int, count: int, own: bool, seed: int
) -> list[np.ndarray]:
    """What is scattered into, ids of which some are outside, and what is scattered."""
    random = np.random.default_rng(seed)
    given = [count if i == axis else size for i, size in enumerate(shape)]
    index = given if own else [count if i == axis else 1 for i in range(len(shape))]
    numbers = random.integers(-2, shape[axis] + 2, index).clip(0 if ids[0] == "u" else -2)
    values = draw(element, tuple(given), seed + 1)
    return [draw(element, tuple(shape), seed), numbers.astype(ELEMENT_TYPES[ids].dtype), values]


def runs_of(
    element: str, ids: str, where: tuple[Sequence[int], int, int, bool], alone: bool, **how: Any
) -> list[Run]:
    shape, axis, count, own = where
    arrays = arrays_of(element, ids, shape, axis, count, own, len(shape) + count)
    types = [
        (name, array.shape) for name, array in zip((element, ids, element), arrays, strict=True)
    ]

    def build(b: Any, x: Any, i: Any, s: Any) -> Any:
        if alone:
            return b.scatter_along(x, i, s, axis=axis, **how)
        total = b.scatter_along(b.add(x, 1), i, b.add(s, s), axis=axis, **how)
        return b.add(total, x), total

    kernel = fused_kernel("scatter", types, build)
    return forms_of(kernel, arrays, f"{element} {ids} {where} {alone}")


def every_way(kernel: FusedKernelOp, arrays: Sequence[np.ndarray], what: str) -> list[Run]:
    """A run of the kernel in every form, and by several work-items of a GPU for each run of ids."""
    sharers = (1, 2, 8, 32)[len(what) % 4]
    shared = Run(kernel, arrays, GPU_ON_CPU, {"sharers": sharers}, f"{what}, {sharers} share a run")
    return [*forms_of(kernel, arrays, what), shared]


def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    element = run.what.split()[0]
    terms = run.arrays[2].size + 3
    largest = sum(np.abs(run.arrays[n].astype(np.float64)).max(initial=1.0) for n in (0, -1))
    unit = EPSILON.get("f64" if element == "f64" else "f32", 0)
    for one, other in zip(got, want, strict=True):
        bound = 4 * terms * unit * largest * (1 + terms**0.5)
        bound = bound + 4 * EPSILON.get(element, 0) * (np.abs(other) + 4)
        assert_near(one, other, bound, run.what)


@pytest.mark.usefixtures("unoptimised", "also_as_spirv")
@pytest.mark.parametrize("element", NUMBERS)
def test_numbers_of_any_element_type_are_added(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for where, ids in zip(SHAPES[:7], ("i32", "i64", "u8", "i16", "u32", "i8", "u16"), strict=True):
        runs += runs_of(element, ids, where, True) + runs_of(element, ids, where, False)
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("alone", [True, False])
def test_scatters_of_any_shape_are_right(alone: bool, cl_queue: Any) -> None:  # noqa: F811
    runs = [run for where in SHAPES for run in runs_of("f32", "i32", where, alone)]
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("element", ["i32", "i64", "u8", "f32"])
def test_the_largest_stays(element: str, cl_queue: Any) -> None:  # noqa: F811
    runs = [run for where in SHAPES for run in runs_of(element, "i32", where, True, combine="max")]
    check_all(cl_queue, runs, check)


@pytest.mark.usefixtures("also_as_spirv")
def test_ids_in_order_say_what_is_scattered_where(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for element in ("f32", "f64", "bf16", "i32"):
        for where in SHAPES:
            shape, axis, count, own = where
            if not shape[axis]:
                continue
            x, ids, src = arrays_of(element, "i32", shape, axis, count, own, 5)
            ids = ids.clip(0, shape[axis] - 1)
            order = np.argsort(ids, axis, kind="stable").astype(np.int32)
            ids = np.take_along_axis(ids, order, axis)
            spec = OPERATIONS["run_bounds"]
            assert spec.evaluate is not None
            bounds = np.asarray(spec.evaluate(ids, places=shape[axis], axis=axis))
            arrays = [x, bounds, order, src]
            names = (element, "i32", "i32", element)
            types = [(name, array.shape) for name, array in zip(names, arrays, strict=True)]
            kernel = fused_kernel(
                "scatter", types, lambda b, *x, a=axis: b.add(b.scatter_runs(*x, axis=a), 1)
            )
            runs += every_way(kernel, arrays, f"{element} {where}")
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("combine", ["add", "max"])
def test_long_runs_are_put_together_of_parts(
    combine: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for element, ids, shape, axis, count, own, part, places in (
        ("f32", "i32", (9, 8), 0, 2100, False, 32, 2), ("f32", "i64", (4, 5, 6), 1, 70, True, 9, 5),
        ("f64", "i32", (3, 4), 0, 300, False, 1, 1), ("i32", "u32", (7, 16), 0, 1000, True, 64, 3),
        ("bf16", "i16", (2, 6, 8), 1, 1023, False, 16, 1), ("u8", "u8", (5,), 0, 257, True, 64, 2),
        ("f16", "i32", (1, 64), 0, 4099, False, 64, 1), ("i64", "i32", (2, 9), 1, 900, True, 7, 8),
        ("f32", "i32", (6, 4), 0, 60, False, 64, 2), ("f32", "i32", (40, 12), 0, 999, False, 8, 40),
        ("f32", "i32", (6, 4), 0, 900, False, 512, 6), ("i64", "i32", (6, 3), 0, 999, True, 512, 6),
    ):  # fmt: skip
        x, numbers, src = arrays_of(element, ids, shape, axis, count, own, count)
        numbers = np.sort(numbers.clip(0, min(places, shape[axis]) - 1), axis)
        order = np.argsort(np.random.default_rng(1).random(numbers.shape), axis).astype(np.int32)
        bounds = OPERATIONS["run_bounds"].evaluate
        assert bounds is not None
        bounds = np.asarray(bounds(numbers, places=shape[axis], axis=axis))
        how = {"axis": axis, "part": part, "combine": combine}
        types = [(ids, numbers.shape), ("i32", order.shape), (element, src.shape)]
        sums = fused_kernel(
            "scatter", types, lambda b, i, o, s, how=how: b.part_totals(i, o, s, **how)
        )
        runs += every_way(sums, [numbers, order, src], f"{element} totals {shape} {count}")
        (totals,) = expected(sums, [numbers, order, src])
        kept = accumulator(ELEMENT_TYPES[element])
        arrays = [x, bounds, order, src, totals.astype(kept.dtype)]
        names = (element, "i32", "i32", element, kept.name)
        types = [(name, array.shape) for name, array in zip(names, arrays, strict=True)]
        kernel = fused_kernel(
            "scatter",
            types,
            lambda b, *x, how=how: b.add(b.scatter_runs_in_parts(*x, **how), x[0]),
        )
        runs += every_way(kernel, arrays, f"{element} {shape} {count}")
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("combine", ["add", "max"])
def test_groups_have_blocks_of_places_where_ids_rise(
    combine: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for element, ids, shape, axis, count, items in (
        ("f32", "i32", (5,), 0, 3, 256), ("f32", "i32", (700,), 0, 9000, 32),
        ("i32", "u32", (3, 1), 1, 5000, 256), ("i64", "i64", (2, 40, 3), 1, 90, 8),
        ("u8", "u8", (1, 300), 1, 300, 64), ("bf16", "i32", (9, 1), 0, 2100, 128),
        ("f64", "i16", (1000, 2), 0, 7, 16),
    ):  # fmt: skip
        arrays = arrays_of(element, ids, shape, axis, count, True, count)
        arrays[1].sort(axis)
        names = (element, ids, element)
        types = [(name, array.shape) for name, array in zip(names, arrays, strict=True)]
        how = {"axis": axis, "combine": combine, "sorted": True}
        kernel = fused_kernel(
            "scatter", types, lambda b, *x, how=how: b.add(b.scatter_along(*x, **how), x[0])
        )
        schedule = {"variant": ScatterVariant.BLOCKS, "local": items}
        runs += [
            replace(run, schedule=schedule)
            for run in forms_of(kernel, arrays, f"{element} {shape}")
            if run.device.kind == "gpu"
        ]
        assert scheduled(kernel, GPU_ON_CPU, **schedule)["variant"] == ScatterVariant.BLOCKS
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("combine", ["add", "max"])
def test_groups_add_totals_of_parts_with_one_id(
    combine: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for element, ids, shape, axis, count, items, part, places in (
        ("f32", "i32", (5,), 0, 3, 256, 1, 5), ("f32", "i32", (700,), 0, 9000, 32, 256, 3),
        ("i32", "u32", (3, 1), 1, 5000, 256, 300, 1), ("f64", "i64", (2, 40, 3), 1, 90, 8, 8, 2),
        ("u8", "u8", (1, 300), 1, 300, 64, 7, 9), ("bf16", "i32", (9, 1), 0, 2100, 64, 512, 1),
        ("f16", "i16", (1000, 2), 0, 7, 16, 9, 1), ("f32", "i32", (5000,), 0, 9000, 64, 1000, 5000),
    ):  # fmt: skip
        x, numbers, src = arrays_of(element, ids, shape, axis, count, True, count)
        numbers = np.sort(numbers.clip(0, min(places, shape[axis]) - 1), axis)
        whole, kept = count // part, accumulator(ELEMENT_TYPES[element])
        rows = np.moveaxis(src, axis, -1)[..., : whole * part]
        rows = rows.reshape(*rows.shape[:-1], whole, part).astype(kept.dtype)
        join = np.add if combine == "add" else np.maximum
        totals = np.moveaxis(join.reduce(rows, axis=-1, dtype=kept.dtype), -1, axis)
        arrays, names = [x, numbers, src, totals], (element, ids, element, kept.name)
        types = [(name, array.shape) for name, array in zip(names, arrays, strict=True)]
        how = {"axis": axis, "part": part, "combine": combine}
        kernel = fused_kernel(
            "scatter",
            types,
            lambda b, *x, how=how: b.add(b.scatter_along_in_parts(*x, **how), x[0]),
        )
        schedule = {"variant": ScatterVariant.BLOCKS, "local": items}
        forms = forms_of(kernel, arrays, f"{element} {shape}")
        runs += [
            replace(run, schedule=schedule if run.device.kind == "gpu" else {}) for run in forms
        ]
        assert scheduled(kernel, GPU_ON_CPU, **schedule)["variant"] == ScatterVariant.BLOCKS
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize(("places", "count"), [(1 << 20, 1 << 20), (1 << 20, 1 << 22)])
def test_most_blocks_of_random_ids_have_one_chunk(places: int, count: int) -> None:
    types = [("f32", (places,)), ("i32", (count,)), ("f32", (count,))]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, axis=0, sorted=True))
    found = scheduled(kernel, DEVICES["nvidia-h200"], variant=ScatterVariant.BLOCKS)
    elements = np.bincount(np.random.default_rng(5).integers(0, places, count) // found["block"])
    assert (elements <= found["items"] * found["each"]).mean() > 0.95
    assert elements.mean() > 0.8 * found["items"] * found["each"]


def test_totals_of_parts_are_there_before_others_write_them() -> None:
    """A whole part has no chunk, whose end is a barrier: one work-item adds its total."""
    types = [("f32", (700,)), ("i32", (9000,)), ("f32", (9000,)), ("f32", (9,))]
    kernel = fused_kernel(
        "scatter", types, lambda b, *x: b.scatter_along_in_parts(*x, axis=0, part=1000)
    )
    function = lowered(kernel, GPU_ON_CPU, variant=ScatterVariant.BLOCKS)
    ops = list(function.body.block.ops)
    waits = [any(isinstance(inner, BarrierOp) for inner in op.walk()) for op in ops]
    (parts,) = (n for n, op in enumerate(ops) if waits[n] and op.regions)
    behind = [type(op) for op in ops[parts + 1 :] if op.regions or isinstance(op, BarrierOp)]
    assert behind[0] is BarrierOp


@pytest.mark.parametrize("combine", ["add", "max"])
def test_groups_have_tables_of_places_where_ids_are_in_no_order(
    combine: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for element, ids, shape, axis, count, items in (
        ("f32", "i32", (5,), 0, 3, 256), ("f32", "i32", (700,), 0, 3000, 32),
        ("i32", "u32", (3, 1), 1, 1000, 256), ("i64", "i64", (2, 40, 3), 1, 90, 4),
        ("u8", "u8", (1, 300), 1, 300, 64), ("bf16", "i32", (9, 1), 0, 210, 128),
        ("f64", "i16", (5000, 2), 0, 7, 16), ("f16", "i8", (2, 100), 1, 64, 64),
        ("f32", "i64", (1, 4097), 1, 129, 64),
    ):  # fmt: skip
        arrays = arrays_of(element, ids, shape, axis, count, True, count)
        names = (element, ids, element)
        types = [(name, array.shape) for name, array in zip(names, arrays, strict=True)]
        how = {"axis": axis, "combine": combine}
        kernel = fused_kernel(
            "scatter", types, lambda b, *x, how=how: b.add(b.scatter_along(*x, **how), x[0])
        )
        schedule = {"variant": ScatterVariant.TABLES, "local": items}
        runs += [
            replace(run, schedule=schedule)
            for run in forms_of(kernel, arrays, f"{element} {shape}")
            if run.device.kind == "gpu"
        ]
        assert scheduled(kernel, GPU_ON_CPU, **schedule)["variant"] == ScatterVariant.TABLES
    check_all(cl_queue, runs, check)


def test_what_is_combined_in_place_is_read_for_nothing_else() -> None:
    types = [("i32", (5,)), ("i32", (3,)), ("i32", (3,))]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.add(b.scatter_along(*x), x[0]))
    kernel.arranged = ScheduleAttr.of(combined="in place")
    with pytest.raises(VerifyException, match="must be in memory, and read for nothing else"):
        kernel.verify()


def test_owners_are_as_many_as_pay_for_ids_that_each_looks_at() -> None:
    """A core that goes over ids in no order is surprised by each that is its own."""

    def parts(inner: int, **how: Any) -> int:
        types = [("f32", (5000, inner)), ("i32", (9000, 1)), ("f32", (9000, inner))]
        kernel = fused_kernel("scatter", types, lambda b, x, i, s: b.scatter_along(x, i, s, **how))
        found = schedule_for(kernel, CPU).values
        assert found["variant"] == ScatterVariant.OWNERS
        return found["parts"]

    assert (parts(1), parts(32), parts(1024)) == (1, 1, CPU.compute_units)
    assert parts(1, sorted=True) == CPU.compute_units


def test_a_gpu_puts_many_ids_in_order() -> None:
    types = [("f32", (50_000, 64)), ("i32", (5_000, 1)), ("f32", (5_000, 64))]
    kernel = fused_kernel(
        "scatter", types, lambda b, x, i, s: b.relu(b.scatter_along(x, i, s, axis=0))
    )
    kinds = [item.kind.data for item in pieces(kernel)]
    digit = ["order", "scan", "order"]
    assert kinds == [*digit, *digit, "pointwise", "scatter", "scatter"]


def scatter_of(kernel: FusedKernelOp) -> TensorOp:
    """The one scatter of a kernel."""
    operations = (op for op in kernel.block.ops if isinstance(op, TensorOp))
    (found,) = (op for op in operations if op.spec.kind is Kind.SCATTER)
    return found


def test_a_sort_of_ids_looks_whether_they_are_in_order() -> None:
    """The first count counts falls; all that follows is told of them, or picks by them."""
    for shape in ((1 << 20,), (1 << 16, 64)):
        count = shape[0]
        index = [count, *[1] * (len(shape) - 1)]
        types = [("f32", shape), ("i32", tuple(index)), ("f32", shape)]
        kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, axis=0))
        first, sums, *rest = pieces(kernel)
        assert "with_falls = true" in str(first)
        assert list(sums.inputs) == list(first.outputs)
        for item in (item for item in rest if item.kind.data != "scan"):
            assert sums.outputs[0] in item.inputs
            names = [op.name for op in item.block.ops]
            assert ("mgn.pick" in names) == (item.kind.data != "order")


def test_no_work_item_of_a_gpu_goes_over_a_long_run() -> None:
    """A run of 262,144 ids takes 56 ms by one work-item after the other."""
    for count in (16_384, 1 << 18, 1 << 22):
        types = [("f32", (1000, 64)), ("i32", (count, 1)), ("f32", (count, 64))]
        kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, axis=0))
        *_, totals, whole = pieces(kernel)
        part = scatter_of(totals).values["part"]
        longest = 2 * (part - 1) + count // part
        assert longest <= 3 * count**0.5, count
        names = [op.name for op in whole.block.ops]
        assert "mgn.scatter_runs_in_parts" in names


def test_work_items_share_runs_where_they_would_wait_and_there_are_others_to_spare() -> None:
    def sharers(places: int, count: int, size: int, most: int = 1024) -> Any:
        shapes = (("f32", (places, size)), ("i32", (places + 1, 1)), ("i32", (count, 1)))
        types = [*shapes, ("f32", (count, size))]
        kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_runs(*x, axis=0))
        device = DEVICES["nvidia-h200"].with_figures(max_work_group_size=most)
        return schedule_for(kernel, device).values["sharers"]

    assert sharers(1000, 1 << 18, 64) >= 8
    assert sharers(1 << 18, 1 << 18, 64) == 1
    assert sharers(1 << 16, 1 << 20, 64) == 1
    assert sharers(100, 300, 4) == 1
    assert sharers(1, 4000, 64) == 32
    assert sharers(1, 4000, 64, most=16) == 16


def test_shared_runs_leave_the_sign_of_a_zero(cl_queue: Any) -> None:  # noqa: F811
    x, src = np.full((3, 8), -0.0, np.float32), np.full((40, 8), -0.0, np.float32)
    bounds = np.array([[0], [0], [35], [40]], np.int32)
    order = np.arange(40, dtype=np.int32)[:, None]
    types = [("f32", x.shape), ("i32", bounds.shape), ("i32", order.shape), ("f32", src.shape)]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_runs(*x, axis=0))
    (total,) = run(cl_queue, kernel, [x, bounds, order, src], GPU_ON_CPU, sharers=8)
    assert np.signbit(total).all()


def test_a_gpu_looks_at_few_ids_as_they_are() -> None:
    types = [("f32", (512, 64)), ("i32", (4, 1)), ("f32", (4, 64))]
    kernel = fused_kernel("scatter", types, lambda b, x, i, s: b.scatter_along(x, i, s, axis=0))
    assert len(pieces(kernel)) == 1


def kinds_of(shape: Sequence[int], count: int, own: bool = True, **how: Any) -> list[str]:
    """The kinds of the kernels by which a large GPU scatters so many ids."""
    given = [count, *shape[1:]]
    index = given if own else [count, *[1] * (len(shape) - 1)]
    types = [("f32", tuple(shape)), ("i32", tuple(index)), ("f32", tuple(given))]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, axis=0, **how))
    return [item.kind.data for item in pieces(kernel)]


@pytest.mark.parametrize("places", [1, 1000])
def test_a_gpu_cuts_many_ids_of_few_places_into_parts(places: int) -> None:
    """A work-item that goes over 65,536 ids takes milliseconds."""
    for count in (4096, 65_536, 1 << 20, 1 << 24):
        assert kinds_of((places,), count) == ["scatter", "reduction"], count


@pytest.mark.parametrize("count", [1 << 18, 1 << 20, 1 << 24])
def test_no_group_of_a_gpu_goes_over_a_long_run(count: int) -> None:
    """A run of 2^24 ids takes 12 ms by one group. Numbers in f64 have no buckets."""
    types = [("f64", (count,)), ("i32", (count,)), ("f64", (count,))]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, axis=0))
    made = pieces(kernel)
    assert [item.kind.data for item in made[-2:]] == ["reduction", "scatter"]
    part = scatter_of(made[-1]).values["part"]
    assert 2 * part // 2048 + count // part <= count**0.5 / 8


@pytest.mark.parametrize("places", [1, 1000, 1 << 20])
def test_a_gpu_combines_many_integers_in_place(places: int) -> None:
    """2^20 ids to 1000 places took 83 µs by tables, for sixteen times as many in 57 in place."""
    for count in (65_536, 1 << 20, 1 << 24):
        types = [("i32", (places,)), ("i32", (count,)), ("i32", (count,))]
        kernel = fused_kernel(
            "scatter", types, lambda b, *x: b.scatter_along(*x, axis=0, combine="max")
        )
        assert [item.kind.data for item in pieces(kernel)] == ["scatter", "scatter"], count


def test_no_work_item_of_a_gpu_looks_at_many_ids() -> None:
    for count, places in ((4000, 5), (5000, 1 << 20), (65_536, 1 << 16), (1 << 20, 1 << 20)):
        for shape, own in (((places,), True), ((places, 3), False)):
            assert len(kinds_of(shape, count, own)) > 1, (count, shape)


def test_zeros_to_which_nothing_is_added_keep_their_sign(cl_queue: Any) -> None:  # noqa: F811
    x = np.array([-0.0, 0.0, -0.0, -0.0], np.float32)
    ids, src = np.array([2, 3, 3], np.int32), np.array([-0.0, np.inf, -np.inf], np.float32)
    types = [("f32", (4,)), ("i32", (3,)), ("f32", (3,))]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, axis=0))
    for variant in (ScatterVariant.EACH, ScatterVariant.TABLES):
        (found,) = run(cl_queue, kernel, [x, ids, src], GPU_ON_CPU, variant=variant)
        np.testing.assert_array_equal(found, [0, 0, 0, np.nan])
        np.testing.assert_array_equal(np.signbit(found[:3]), [True, False, True])


@pytest.mark.parametrize("is_sorted", [False, True])
def test_an_id_of_billions_of_places_is_never_cut_to_32_bits(is_sorted: bool) -> None:
    """Groups with tables and blocks compared its last 32 bits with where their places begin."""
    places = 5_000_000_000
    types = [("u8", (places,)), ("i64", (300,)), ("u8", (300,))]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, sorted=is_sorted))
    variant = ScatterVariant.BLOCKS if is_sorted else ScatterVariant.TABLES
    function = lowered(kernel, DEVICES["nvidia-h200"], variant=variant)
    operations = list(function.walk())
    numbers = [op for op in operations if isinstance(op, arith.ConstantOp)]
    ends: set[SSAValue] = {
        op.result for op in numbers if str(op.value).startswith(f"{places - 1} ")
    }
    limits = [op for op in operations if isinstance(op, arith.MinSIOp)]
    ids: set[SSAValue] = {op.result for op in limits if not ends.isdisjoint(op.operands)}
    assert ids
    for op in operations:
        if isinstance(op, arith.IndexCastOp | arith.TruncIOp) and op.operands[0] in ids:
            assert op.results[0].type != i32
            ids.add(op.results[0])
