"""Scatters by ids in order but for their lowest bits: drawn shapes and ids, against wide sums."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mgn.codegen.opencl.opencl import emit
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.types import ELEMENT_TYPES
from mgn.driver.kernel_work import kernel_work
from mgn.passes.arrangements.kernel_pieces import KernelPieces
from mgn.passes.arrangements.sorted_scatters import SortedScatter
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.schedules.scatter_work import ScatterVariant
from tests.passes.lower_kernels.scatter.test_scatter import check
from tests.passes.lower_kernels.test_differential import draw
from tests.support.guard_zones import PATTERNS, launch_once
from tests.support.lower_fixture import (
    GPU_ON_CPU,
    Run,
    check_all,
    forms_of,
    fused_kernel,
    lowered,
    pieces,
    run,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

DRAWS = ("random", "equal", "few", "two", "falling", "one bucket")


def ids_of(how: str, places: int, shape: tuple[int, ...], axis: int, bits: int) -> np.ndarray:
    """Ids in the order of their buckets, and in any order in each."""
    generator, size = np.random.default_rng(len(how) + shape[axis]), 1 << bits
    ids = {
        "random": lambda: generator.integers(0, places, shape),
        "equal": lambda: np.full(shape, places // 2),
        "few": lambda: generator.choice([0, places - 1, places // 3], shape),
        "two": lambda: generator.integers(0, 2, shape) * min(1, places - 1),
        "falling": lambda: np.sort(generator.integers(0, places, shape), axis)[::-1],
        "one bucket": lambda: generator.integers(0, min(size, places), shape),
    }[how]()
    order = np.argsort(ids // size, axis, kind="stable")
    return np.take_along_axis(ids, order, axis)


def runs_of(
    element: str, ids: str, how: str, shape: tuple[int, ...], axis: int, count: int, bits: int,
    part: int,
) -> list[Run]:  # fmt: skip
    """Totals of parts, and the scatter by them, each in every form and as sub-groups do it."""
    given = (*shape[:axis], count, *shape[axis + 1 :])
    numbers = ids_of(how, shape[axis], given, axis, bits).astype(ELEMENT_TYPES[ids].dtype)
    x, src = draw(element, shape, count), draw(element, given, count + 1)
    wide = accumulator(ELEMENT_TYPES[element])
    values = {"axis": axis, "bits": bits, "part": part}
    evaluate = OPERATIONS["bucket_totals"].evaluate
    assert evaluate is not None
    totals = np.asarray(evaluate(numbers, src.astype(wide.dtype), **values))
    whole = fused_kernel(
        "scatter",
        [(element, shape), (ids, given), (element, given), (wide.name, totals.shape)],
        lambda b, x, *rest: b.add(b.scatter_in_buckets(x, *rest, **values), x),
    )
    parts = fused_kernel(
        "scatter",
        [(ids, given), (element, given)],
        lambda b, ids, src: b.bucket_totals(ids, b.cast(src, wide.name), **values),
    )
    found: list[Run] = []
    for kernel, variant, arrays in (
        (whole, ScatterVariant.BUCKETS, [x, numbers, src, totals]),
        (parts, ScatterVariant.BUCKET_TOTALS, [src, numbers, src]),
    ):
        own = arrays if kernel is whole else arrays[1:]
        forms = forms_of(kernel, own, f"{element} {how} {shape} {count} {bits} {part}")
        found += [replace(item, schedule={"variant": ScatterVariant.EACH}) for item in forms]
        if element != "f64" and (kernel is whole or totals.size):
            assert scheduled(kernel, GPU_ON_CPU, variant=variant)["variant"] == variant
            found += [
                replace(item, schedule={"variant": variant}, what=f"{item.what} {variant}")
                for item in forms
                if item.device.kind == "gpu"
            ]
    return found


def check_sums(item: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    arrays = item.arrays if len(item.arrays) == 4 else [item.arrays[-1], *item.arrays, 0]
    check(replace(item, arrays=[*arrays[:3], arrays[2]]), got, want)


@pytest.mark.parametrize("how", DRAWS)
def test_sub_groups_add_the_elements_of_their_buckets(how: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape, axis, count, bits, part in (
        ((700,), 0, 3000, 4, 64), ((70,), 0, 1000, 5, 100), ((5,), 0, 3, 2, 2),
        ((3, 300), 1, 900, 7, 32), ((40, 3), 0, 257, 3, 16), ((2, 65, 2), 1, 513, 8, 1000),
        ((1,), 0, 77, 1, 7), ((1024,), 0, 4096, 6, 512), ((33,), 0, 129, 5, 1),
    ):  # fmt: skip
        runs += runs_of("f32", "i32", how, shape, axis, count, bits, part)
    check_all(cl_queue, runs, check_sums)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize(
    ("element", "ids"), [("f16", "i64"), ("bf16", "u16"), ("f32", "u8"), ("f64", "i32")]
)
def test_any_types_are_added_to_buckets(element: str, ids: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for how in ("random", "equal"):
        runs += runs_of(element, ids, how, (200,), 0, 600, 4, 32)
        runs += runs_of(element, ids, how, (3, 90), 1, 100, 3, 8)
    check_all(cl_queue, runs, check_sums)


def test_a_place_gets_its_elements_in_their_order(cl_queue: Any) -> None:  # noqa: F811
    """The order shows in the bits: 1 is lost beside 2^24, and not before it is taken away."""
    count = 96
    src = np.tile(np.float32([1 << 24, 1, -(1 << 24), 1]), count // 4)
    x, ids = np.zeros(4, np.float32), np.zeros(count, np.int32)
    kernel = fused_kernel(
        "scatter",
        [("f32", (4,)), ("i32", (count,)), ("f32", (count,)), ("f32", (0,))],
        lambda b, *x: b.scatter_in_buckets(*x, axis=0, bits=2, part=count + 1),
    )
    arrays = [x, ids, src, np.zeros(0, np.float32)]
    schedule = {"variant": ScatterVariant.BUCKETS}
    (got,) = run(cl_queue, kernel, arrays, GPU_ON_CPU, **schedule)
    total = np.float32(0)
    for value in src:
        total = np.float32(total + value)
    np.testing.assert_array_equal(got, [total, 0, 0, 0])


def test_the_work_of_a_scatter_is_what_is_scattered() -> None:
    x, ids, src, few = ("f32", (100,)), ("i32", (70,)), ("f32", (70,)), ("f32", (8,))
    for types, call, how in (
        ([ids, src], "bucket_totals", {"bits": 2, "part": 32}),
        ([x, ids, src, few], "scatter_in_buckets", {"bits": 2, "part": 32}),
        ([x, ids, src], "scatter_along", {}),
    ):
        kernel = fused_kernel(
            "scatter", types, lambda b, *x, call=call, how=how: b.call(call, *x, axis=0, **how)
        )
        assert kernel_work(kernel).operations == 70


def test_marks_say_before_the_first_addition_that_nobody_had_a_turn() -> None:
    """A work-item of a sub-group has eight of the marks of 256 places."""
    device, values = DEVICES["nvidia-h200"], {"axis": 0, "bits": 8, "part": 1024}
    given = [("i32", (1 << 20,)), ("f32", (1 << 20,))]
    parts = fused_kernel("scatter", given, lambda b, *x: b.bucket_totals(*x, **values))
    types = [("f32", (1 << 20,)), *given, ("f32", (1 << 18,))]
    whole = fused_kernel("scatter", types, lambda b, *x: b.scatter_in_buckets(*x, **values))
    for kernel in (parts, whole):
        text = emit(lowered(kernel, device), device)
        before, _, _ = text[text.index("__kernel") :].partition("add_in_order(")
        assert before.count("] = -1;") == 8
        assert "barrier(" in before.rpartition("] = -1;")[2]


@pytest.mark.parametrize("count", [1 << 18, 1 << 20, 1 << 24])
def test_no_sub_group_goes_over_a_long_bucket(count: int) -> None:
    """It takes up to 1.5 µs for 32 elements, and 0.6 for the totals of a part."""
    types = [("f32", (count,)), ("i32", (count,)), ("f32", (count,))]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, axis=0))
    made = pieces(kernel)
    assert [item.kind.data for item in made[-2:]] == ["scatter", "scatter"]
    (part,) = {op.values["part"] for op in made[-1].block.ops if "in_buckets" in op.name}  # type: ignore
    assert 2 * part / 32 + count / part <= count**0.5


@pytest.mark.parametrize(("size", "bits"), [(1 << 16, None), (1 << 20, 8), (1 << 24, 9)])
def test_a_gpu_sorts_sums_by_their_highest_bits(size: int, bits: int | None) -> None:
    types = [("f32", (size,)), ("i32", (size,)), ("f32", (size,))]
    kernel = fused_kernel("scatter", types, lambda b, *x: b.scatter_along(*x, axis=0))
    ops = [op for piece in pieces(kernel, DEVICES["nvidia-h200"]) for op in piece.block.ops]
    found = [op for op in ops if op.name == "mgn.scatter_in_buckets"]
    assert [op.values["bits"] for op in found] == ([] if bits is None else [bits])  # type: ignore


VARIANTS = {
    "mgn.scatter_in_buckets": ScatterVariant.BUCKETS,
    "mgn.bucket_totals": ScatterVariant.BUCKET_TOTALS,
}


@pytest.fixture
def unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs may be left unwritten: they hold NaN then, and numbers that are no ids."""

    def launch(queue: Any, context: Any, program: Any, kernel: Any, arrays: Any) -> None:
        found = launch_once(queue, context, program, kernel, arrays, PATTERNS[0])
        for array, own in zip(arrays, found, strict=True):
            array.view(np.uint8)[:] = own

    monkeypatch.setattr("tests.support.opencl_fixture.launch_guarded", launch)


@pytest.mark.usefixtures("unoptimised", "unwritten")
@pytest.mark.parametrize("how", ["random", "in order", "in order once inside", "nearly", "equal"])
@pytest.mark.parametrize(
    ("element", "ids", "shape", "axis", "count"),
    [("f32", "i64", (704,), 0, 3001), ("f16", "i32", (3, 208), 1, 1100)],
)
def test_ids_are_sorted_and_added_in_buckets(
    element: str, ids: str, shape: tuple[int, ...], axis: int, count: int, how: str, cl_queue: Any,  # noqa: F811
) -> None:  # fmt: skip
    """The last bucket is a whole one, and a row's parts lie in it where ids are outside."""
    given, places = (*shape[:axis], count), shape[axis]
    generator = np.random.default_rng(count)
    numbers = generator.integers(0, places, given)
    if how == "in order once inside":
        numbers[..., : count // 4], numbers[..., count // 2 :] = -3, places - 1
    numbers = np.full(given, 5) if how == "equal" else numbers
    numbers = numbers if how == "random" else np.sort(numbers, axis)
    if how == "in order once inside":
        numbers += generator.integers(0, 40, given) * (numbers == places - 1)
    if how == "nearly":
        numbers[(0,) * axis + (slice(0, 2),)] = places - 1, 0
    dtype, named = ELEMENT_TYPES[element].dtype, numbers.astype(ELEMENT_TYPES[ids].dtype)
    x, src = (generator.integers(-1, 2, size).astype(dtype) for size in (shape, given))
    kernel = fused_kernel(
        "scatter",
        [(element, shape), (ids, given), (element, given)],
        lambda b, *x: b.abs(b.scatter_along(*x, axis=axis)),
    )
    known = dict(zip(kernel.inputs, [x, named, src], strict=True))
    written = KernelPieces(kernel)
    SortedScatter(1024, True, 64, 4).write(written)
    for piece in (made := written.replace()):
        kinds = [VARIANTS[op.name] for op in piece.block.ops if op.name in VARIANTS]
        schedule = {"variant": kinds[0]} if kinds else {}
        results = run(cl_queue, piece, [known[v] for v in piece.inputs], GPU_ON_CPU, **schedule)
        known.update(zip(piece.outputs, results, strict=True))
    index = list(np.indices(given, sparse=True))
    index[axis], wanted = numbers.clip(0, places - 1), x.astype(np.float64)
    np.add.at(wanted, tuple(index), src.astype(np.float64))
    np.testing.assert_array_equal(known[made[-1].outputs[0]], np.abs(wanted).astype(dtype))
