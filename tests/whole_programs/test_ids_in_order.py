"""Scatters whose ids are in order already, nearly so, or not, as a large GPU and as a CPU would
have them: their sorts look first, and leave alone what is in order.

What is added are small whole numbers, so that every order of additions gives the same; NumPy is the
reference. With fractions, bits are compared with those of ids that are next to in order.
"""

from collections.abc import Callable

import numpy as np
import pytest

import mgn
from mgn.dialects.types import ELEMENT_TYPES
from tests.conftest import targets_of_the_device
from tests.support.large_gpu import large_gpu  # noqa: F401
from tests.whole_programs.test_gpu_scatters import (
    DEVICE,
    compiled,
    drawn_numbers,
    program_of,
    run,
    wanted_of,
)

Ids = np.ndarray

NAMES = ["f32", "i32", "f32"]


def swapped(place: int) -> Callable[[Ids], Ids]:
    """In order, but for an id that is less than the one before it."""

    def change(ids: Ids) -> Ids:
        ids[place] = ids[place - 1] - 1
        return ids

    return change


ORDERS: dict[str, Callable[[Ids], Ids]] = {
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

CASES = [
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
@pytest.mark.parametrize("case", CASES, ids=str)
def test_ids_in_any_order_are_scattered_right(
    case: tuple[int, int, int, str, str], target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that nobody has written holds NaN and numbers that are no ids."""
    monkeypatch.setenv("MGN_GUARD", "on")
    count, places, inner, element, named = case
    tail = (inner,) if inner else ()
    dtype, dtype_of_ids = ELEMENT_TYPES[element].dtype, ELEMENT_TYPES[named].dtype
    drawn = np.sort(np.random.default_rng(count).integers(0, places, count)).astype(dtype_of_ids)
    x = drawn_numbers((places, *tail), "f64", 1)
    src = np.sign(drawn_numbers((count, *tail), "f64", 2))
    src *= np.random.default_rng(3).random(src.shape) < 300 / count  # sums of halves are exact
    arrays = [x.astype(dtype), drawn, src.astype(dtype)]
    executable = compiled("scatter_add(x, i, s)", arrays, [element, named, element], target)
    for how, make in ORDERS.items():
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
