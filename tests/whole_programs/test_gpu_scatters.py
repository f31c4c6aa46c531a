"""Scatters of drawn sizes as a large GPU would have them, on whichever device there is: by ids in
no order, and by ids that are in order already or nearly so.

What is added are small whole numbers, so that every order of additions gives the same. NumPy is the
reference.
"""

import os
import re
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import mgn
from mgn.dialects.types import ELEMENT_TYPES
from tests.conftest import targets_of_the_device
from tests.support.large_gpu import large_gpu  # noqa: F401

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")

SIZES = [
    (1, 1), (16, 1), (64, 5), (300, 1000), (1024, 1000), (1024, 70_000), (5000, 1), (4099, 3000),
    (40_000, 100), (65_536, 1000), (65_537, 9000), (20_000, 30_000), (150_000, 2),
    (300_000, 70_000),
]  # fmt: skip
"""How many ids, and to how many places."""


CALLS = ("scatter(x, i, s)", "scatter_add(x, i, s)", 'scatter_along(x, i, s, combine = "max")')

Operands = Sequence[tuple[str, np.ndarray]]
"""What is scattered into, the ids, and what is scattered, each with its element type."""

ORDERS = ("random", "sorted", "equal")
"""In what order the ids are."""


def drawn_ids(count: int, places: int, how: str, element: str) -> np.ndarray:
    """Ids, some of which are outside of the places."""
    random = np.random.default_rng(count + places)
    dtype = ELEMENT_TYPES[element].dtype
    if how == "equal":
        return np.full(count, places // 2, dtype)
    ids = random.integers(-3, places + 3, count)
    return (np.sort(ids) if how == "sorted" else ids).astype(dtype)


def drawn_numbers(shape: tuple[int, ...], element: str, seed: int) -> np.ndarray:
    numbers = np.random.default_rng(seed).integers(-4, 5, shape)
    return numbers.astype(ELEMENT_TYPES[element].dtype)


def program_of(call: str, arrays: Sequence[np.ndarray], names: Sequence[str]) -> mgn.Module:
    given = zip(("x", "i", "s"), names, arrays, strict=True)
    head = ", ".join(
        f"{name}: {element}[{', '.join(map(str, array.shape))}]" for name, element, array in given
    )
    return mgn.parse(f"graph g({head}) {{ return y = {call} }}")


def compiled(
    call: str, arrays: Sequence[np.ndarray], names: Sequence[str], target: str
) -> mgn.Executable:
    return mgn.compile(program_of(call, arrays, names), device=DEVICE, target=target)


def run(executable: mgn.Executable, arrays: Sequence[np.ndarray]) -> np.ndarray:
    return executable(**dict(zip(("x", "i", "s"), arrays, strict=True)))["y"]


def compiled_together(call: str, given: Sequence[Operands], target: str) -> mgn.Executable:
    """One graph of a call for each of some operands, whose kernels a driver builds as one program:
    `y0` of `x0`, `i0` and `s0`, and so on.
    """
    inputs = ", ".join(
        f"{name}{number}: {element}[{', '.join(map(str, array.shape))}]"
        for number, operands in enumerate(given)
        for name, (element, array) in zip("xis", operands, strict=True)
    )
    numbered = (re.sub(r"\b[xis]\b", rf"\g<0>{number}", call) for number in range(len(given)))
    results = ", ".join(f"y{number} = {text}" for number, text in enumerate(numbered))
    text = f"graph g({inputs}) {{ return {results} }}"
    return mgn.compile(mgn.parse(text), device=DEVICE, target=target)


def run_together(
    executable: mgn.Executable, given: Sequence[Sequence[np.ndarray]]
) -> list[np.ndarray]:
    """The result of each call."""
    inputs = {
        f"{name}{number}": array
        for number, operands in enumerate(given)
        for name, array in zip("xis", operands, strict=True)
    }
    found = executable(**inputs)
    return [found[f"y{number}"] for number in range(len(given))]


def wanted_of(call: str, x: np.ndarray, ids: np.ndarray, src: np.ndarray) -> np.ndarray:
    """By a loop of NumPy's, in the order of the ids, along the first axis."""
    places, result = np.clip(ids.astype(np.int64), 0, len(x) - 1), x.copy()
    if call.startswith("scatter_add"):
        np.add.at(result, places, src)
    elif call.startswith("scatter_along"):
        np.maximum.at(result, places, src)
    else:
        last = np.full(len(x), -1)
        np.maximum.at(last, places, np.arange(len(ids)))
        result[last >= 0] = src[last[last >= 0]]
    return result


@pytest.mark.usefixtures("large_gpu")
@pytest.mark.parametrize("target", targets_of_the_device())
@pytest.mark.parametrize("call", CALLS)
def test_scatters_of_every_size_are_right(call: str, target: str) -> None:
    given: list[tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]] = []
    typed: list[Operands] = []
    for number, (count, places) in enumerate(SIZES):
        element = ("f32", "i32", "f64", "u32", "i64", "f32")[number % 6]
        named = ("i32", "i64")[number % 2]
        x, src = (abs(drawn_numbers((n,), element, k)) for k, n in ((1, places), (2, count)))
        orders = {how: drawn_ids(count, places, how, named) for how in ORDERS}
        given.append((x, orders, src))
        typed.append([(element, x), (named, orders["random"]), (element, src)])
    executable = compiled_together(call, typed, target)
    for how in ORDERS:
        found = run_together(executable, [(x, orders[how], src) for x, orders, src in given])
        for size, got, (x, orders, src) in zip(SIZES, found, given, strict=True):
            np.testing.assert_array_equal(
                got, wanted_of(call, x, orders[how], src), f"{how} {size}"
            )


@pytest.mark.usefixtures("large_gpu")
@pytest.mark.parametrize("target", targets_of_the_device())
@pytest.mark.parametrize("combine", ["add", "max"])
def test_integers_are_combined_in_place(
    combine: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGN_GUARD", "on")
    random = np.random.default_rng(5)
    for element, named, shape, axis, count, own in (
        ("i32", "i32", (9000,), 0, 70_001, True), ("i32", "i64", (2, 30_000, 3), 1, 9000, True),
        ("i32", "u32", (100_000, 3), 0, 5000, False), ("i32", "i16", (1, 40_000), 1, 30_000, True),
        ("u32", "i32", (70_000,), 0, 100_000, True),
    ):  # fmt: skip
        if element == "u32" and combine == "max":
            continue
        given = [count if i == axis else n for i, n in enumerate(shape)]
        index = given if own else [count if i == axis else 1 for i in range(len(shape))]
        least = 0 if named[0] == "u" else -3
        ids = random.integers(least, min(shape[axis] + 3, 1 << 15), index)
        x, src = (random.integers(0, 1 << 32, n).astype(np.uint32) for n in (shape, given))
        arrays = [x, ids.astype(ELEMENT_TYPES[named].dtype), src]
        if element == "i32":
            arrays[0], arrays[2] = x.view(np.int32), src.view(np.int32)
        call = f'scatter_along(x, i, s, axis = {axis}, combine = "{combine}")'
        program = program_of(call, arrays, [element, named, element])
        executable = mgn.compile(program, device=DEVICE, target=target)
        assert "combined in place" in str(executable.report)
        (found,) = executable(x=arrays[0], i=arrays[1], s=arrays[2]).values()
        places = list(np.indices(given, sparse=True))
        places[axis] = np.broadcast_to(ids.clip(0, shape[axis] - 1), given)
        wanted = arrays[0].copy()
        (np.add if combine == "add" else np.maximum).at(wanted, tuple(places), arrays[2])
        np.testing.assert_array_equal(found, wanted, f"{shape} {count}")


LONG_RUNS = [
    (3000, 7, 8, "f32", "i32"), (20_000, 1000, 8, "f32", "i64"), (17_001, 5, 6, "f16", "i32"),
    (9000, 40, 12, "bf16", "i16"), (5000, 3000, 4, "f64", "i32"), (8191, 3, 16, "i64", "i32"),
    (70_001, 2, 0, "f64", "i32"), (150_000, 90_000, 0, "f32", "i64"),
    (200_000, 50_000, 0, "i64", "i32"), (140_000, 70_000, 0, "f16", "i32"),
    (70_000, 30_000, 0, "u8", "u16"),
]  # fmt: skip
"""Ids, places, elements of a slice (0 for numbers), types of the elements and of the ids."""


@pytest.mark.usefixtures("large_gpu")
@pytest.mark.parametrize("target", targets_of_the_device())
def test_long_runs_of_one_id_are_summed_right(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers wrap; what floats come to is exact in f16 and bf16, too, or rounded once."""
    monkeypatch.setenv("MGN_GUARD", "on")
    random = np.random.default_rng(9)
    given: list[tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]] = []
    typed: list[Operands] = []
    for count, places, inner, element, named in LONG_RUNS:
        tail = (inner,) if inner else ()
        ids = random.integers(0, places, count)
        padded = np.where(random.random(count) < 0.7, places // 3, ids)
        two = np.where(random.random(count) < 0.5, 0, places - 1)
        runs = {"equal": np.full(count, places // 2), "padded": padded, "two": two}
        x, src = drawn_numbers((places, *tail), "f64", 1), drawn_numbers((count, *tail), "f64", 2)
        given.append((x, runs, src))
        numbers = (element, x), (named, ids), (element, src)
        typed.append([(name, a.astype(ELEMENT_TYPES[name].dtype)) for name, a in numbers])
    executable = compiled_together("scatter_add(x, i, s)", typed, target)
    for how in ("equal", "padded", "two"):
        arrays = [
            (x, runs[how].astype(ids.dtype), src)
            for (_, runs, _), ((_, x), (_, ids), (_, src)) in zip(given, typed, strict=True)
        ]
        found = run_together(executable, arrays)
        for case, got, (x, runs, src) in zip(LONG_RUNS, found, given, strict=True):
            wanted, dtype = x.copy(), got.dtype
            np.add.at(wanted, runs[how], src)
            wanted = (wanted.astype(np.int64) if case[3][0] in "iu" else wanted).astype(dtype)
            np.testing.assert_array_equal(got, wanted, f"{how} {case}")


NAMES = ["f32", "i32", "f32"]


def swapped(place: int) -> Callable[[np.ndarray], np.ndarray]:
    """In order, but for an id that is less than the one before it."""

    def change(ids: np.ndarray) -> np.ndarray:
        ids[place] = ids[place - 1] - 1
        return ids

    return change


WAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "in order": lambda ids: ids,
    "equal": lambda ids: np.full_like(ids, ids[len(ids) // 2]),
    "negative": lambda ids: ids - ids.max() - 1,
    "outside": lambda ids: ids * 3 - ids.max(),
    "falling": lambda ids: ids[::-1].copy(),
    "random": np.random.default_rng(2).permutation,
    "second": swapped(1),
    "last": swapped(-1),
    "middle": lambda ids: swapped(len(ids) // 2)(ids),
    **{f"at {place}": swapped(place) for place in (2047, 2048, 2049, 16384)},
}

GIVEN = [
    (300_000, 290_000, 0, "f32", "i32"), (290_001, 300_000, 0, "f16", "i64"),
    (300_001, 280_000, 0, "bf16", "i32"), (290_000, 290_000, 0, "i64", "i32"),
    (20_000, 9000, 0, "i32", "i32"), (20_000, 3000, 6, "f32", "i32"),
    (20_001, 9000, 8, "f16", "i64"), (18_001, 1, 0, "f32", "i32"),
]  # fmt: skip
"""Ids, places, elements of a slice (0 for numbers), types of the elements and of the ids."""


@pytest.fixture(params=["large GPU", "as it is"])
def figures(request: pytest.FixtureRequest) -> None:
    """The figures that kernels are chosen by."""
    if request.param == "large GPU":
        request.getfixturevalue("large_gpu")


@pytest.mark.usefixtures("figures")
@pytest.mark.parametrize("target", targets_of_the_device())
@pytest.mark.parametrize("case", GIVEN, ids=str)
def test_ids_in_any_order_are_scattered_right(
    case: tuple[int, int, int, str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that nobody has written holds NaN and numbers that are no ids."""
    monkeypatch.setenv("MGN_GUARD", "on")
    count, places, inner, element, named = case
    tail = (inner,) if inner else ()
    dtype, dtype_of_ids = ELEMENT_TYPES[element].dtype, ELEMENT_TYPES[named].dtype
    drawn = np.random.default_rng(count).integers(min(5, places - 1), places, count)
    drawn = np.sort(drawn).astype(dtype_of_ids)
    x = drawn_numbers((places, *tail), "f64", 1)
    src = np.sign(drawn_numbers((count, *tail), "f64", 2))
    src *= np.random.default_rng(3).random(src.shape) < 300 / count  # sums of halves are exact
    arrays = [x.astype(dtype), drawn, src.astype(dtype)]
    executable = compiled("scatter_add(x, i, s)", arrays, [element, named, element], target)
    for how, make in WAYS.items():
        ids = make(drawn.copy()).astype(dtype_of_ids)
        found = run(executable, [arrays[0], ids, arrays[2]])
        wanted = wanted_of("scatter_add", x, ids, src)
        np.testing.assert_array_equal(found.astype(np.float64), wanted, f"{how} {case}")


@pytest.mark.usefixtures("large_gpu")
@pytest.mark.parametrize("target", targets_of_the_device())
@pytest.mark.parametrize(("axis", "shape"), [(1, (2, 300_000)), (0, (150_000, 3))])
def test_rows_are_in_order_each_by_itself(
    axis: int, shape: tuple[int, ...], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MGN_GUARD", "on")
    random = np.random.default_rng(axis)
    places = [300_000 if n == axis else size for n, size in enumerate(shape)]
    ids = np.sort(random.integers(-3, 300_003, shape), axis).astype(np.int32)
    lines = np.moveaxis(ids, axis, -1)
    lines[(0,) * (lines.ndim - 1)] = random.permutation(lines.shape[-1])
    x, src = (random.integers(-4, 5, n).astype(np.float32) for n in (places, shape))
    program = program_of(f"scatter_along(x, i, s, axis = {axis})", [x, ids, src], NAMES)
    executable = mgn.compile(program, device=DEVICE, target=target)
    assert "ids in order" in str(executable.report)
    index = list(np.indices(shape, sparse=True))
    for given in (ids, np.sort(ids, axis)):
        index[axis], wanted = given.clip(0, 299_999), x.copy()
        np.add.at(wanted, tuple(index), src)
        np.testing.assert_array_equal(executable(x=x, i=given, s=src)["y"], wanted)


@pytest.mark.usefixtures("large_gpu")
@pytest.mark.parametrize("target", targets_of_the_device())
@pytest.mark.parametrize(("inner", "count"), [(0, 300_000), (6, 70_000)])
def test_sums_have_the_bits_that_they_have_where_ids_are_sorted(
    inner: int, count: int, target: str
) -> None:
    """Two neighbours that change places, with their elements, are put in order again."""
    random, tail = np.random.default_rng(5), (inner,) if inner else ()
    ids = np.sort(random.integers(0, count, count)).astype(np.int32)
    src = random.normal(size=(count, *tail)).astype(np.float32)
    arrays = [random.normal(size=(count, *tail)).astype(np.float32), ids, src]
    executable = compiled("scatter_add(x, i, s)", arrays, NAMES, target)
    assert "ids in order" in str(executable.report)
    found = run(executable, arrays)
    (steps,) = np.nonzero(ids[1:] > ids[:-1])
    for step in steps[[0, len(steps) // 2, -1]]:
        order = np.arange(count)
        order[[step, step + 1]] = step + 1, step
        again = run(executable, [arrays[0], ids[order], src[order]])
        np.testing.assert_array_equal(found.view(np.uint32), again.view(np.uint32))
