"""What is timed of orders, scans and scatters: programs, their inputs, their peers.

In: how many elements, in how many rows, of which type, how they are drawn. Out: `OrderCase`s.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]

DTYPES = {"f32": np.float32, "i32": np.int32}

DRAWS = ("random", "sorted", "equal")
"""How elements are drawn: at random, at random and put in order, all alike."""

FEW_PLACES = 1000
"""Places of a small table that is scattered to."""

COLUMNS, SLICE = 16, 64
"""Columns of a running sum along few of them, and elements of a slice that is scattered."""

BEST = 64


@dataclass(frozen=True)
class OrderCase:
    """A program with its inputs, and the same by NumPy and by PyTorch.

    `moved` counts the bytes that have to be read and written at least.
    """

    name: str
    program: str
    arrays: Arrays
    numpy: Callable[..., np.ndarray]
    torch: Callable[..., Any]
    moved: int


def drawn(how: str, shape: Sequence[int], element: str) -> np.ndarray:
    """Elements, drawn in one of the ways of `DRAWS`."""
    generator = np.random.default_rng(0)
    if element == "f32":
        values = generator.standard_normal(shape, np.float32)
    else:
        values = generator.integers(-(1 << 31), 1 << 31, shape, np.int64)
    values = values.astype(DTYPES[element], copy=False)
    if how == "equal":
        return np.full(shape, values.reshape(-1)[0])
    return np.sort(values, -1) if how == "sorted" else values


def cases_of(elements: int, rows: int, element: str, how: str) -> Iterator[OrderCase]:
    """All cases of so many elements; scatters go to one row."""
    shape = (rows, elements // rows)
    x, bytes = {"x": drawn(how, shape, element)}, elements * 4
    given, name = (
        f"x: {element}[{rows}, {elements // rows}]",
        f"{elements} in {rows} {element} {how}",
    )
    best = min(BEST, shape[1])

    def case(call: str, numpy: Any, torch: Any, moved: int, word: str) -> OrderCase:
        text = f"graph g({given}) {{ return y = {call} }}"
        return OrderCase(f"{word} {name}", text, x, numpy, torch, moved)

    yield case("sort(x)", lambda x: np.sort(x, -1), lambda t, x: t.sort(x)[0], 2 * bytes, "sort")
    yield case(
        "argsort(x)",
        lambda x: np.argsort(x, -1, kind="stable"),
        lambda t, x: t.sort(x, stable=True)[1],
        2 * bytes,
        "argsort",
    )
    yield case(
        f"topk(x, {best})[0]",
        lambda x: -np.sort(np.partition(-x.astype(np.float64), best - 1)[:, :best], -1),
        lambda t, x: t.topk(x, best)[0],
        bytes,
        "topk",
    )
    if element == "f32" and how == "random":
        yield case(
            "cumsum(x, axis = 1)",
            lambda x: np.cumsum(x, 1, np.float64),
            lambda t, x: t.cumsum(x, 1),
            2 * bytes,
            "cumsum",
        )
        yield case(
            "cumsum(x, axis = 0)",
            lambda x: np.cumsum(x, 0, np.float64),
            lambda t, x: t.cumsum(x, 0),
            2 * bytes,
            "cumsum 0",
        )
        x = {"x": np.exp(np.float32(0.01) * x["x"])}  # products that stay in range
        yield case(
            "cumprod(x, axis = 1)",
            lambda x: np.cumprod(x, 1, np.float64),
            lambda t, x: t.cumprod(x, 1),
            2 * bytes,
            "cumprod",
        )
    if rows == 1 and element == "f32":
        yield from scatter_cases(elements, how)
        if elements % SLICE == 0:
            yield slice_case(elements, how)
    if rows == 1 and element == "f32" and how == "random" and elements % COLUMNS == 0:
        yield column_case(elements)


def column_case(elements: int) -> OrderCase:
    """A running sum along a few long columns."""
    x = drawn("random", (elements // COLUMNS, COLUMNS), "f32")
    text = f"graph g(x: f32{list(x.shape)}) {{ return y = cumsum(x, axis = 0) }}"
    return OrderCase(
        f"cumsum of {COLUMNS} columns {elements}",
        text,
        {"x": x},
        lambda x: np.cumsum(x, 0, np.float64),
        lambda t, x: t.cumsum(x, 0),
        8 * elements,
    )


def drawn_ids(generator: np.random.Generator, how: str, places: int, count: int) -> np.ndarray:
    """So many ids of places, drawn in one of the ways of `DRAWS`."""
    ids = generator.integers(0, places, count).astype(np.int32)
    if how == "equal":
        return np.full_like(ids, ids[0])
    return np.sort(ids) if how == "sorted" else ids


def slice_case(elements: int, how: str) -> OrderCase:
    """A sum of slices of so many elements together into a few places."""
    generator, count = np.random.default_rng(2), elements // SLICE
    arrays = {
        "x": generator.standard_normal((FEW_PLACES, SLICE), np.float32),
        "i": drawn_ids(generator, how, FEW_PLACES, count),
        "s": generator.standard_normal((count, SLICE), np.float32),
    }

    def added(x: np.ndarray, i: np.ndarray, s: np.ndarray) -> np.ndarray:
        result = x.astype(np.float64)
        np.add.at(result, i, s)
        return result

    given = f"x: f32[{FEW_PLACES}, {SLICE}], i: i32[{count}], s: f32[{count}, {SLICE}]"
    text = f"graph g({given}) {{ return y = scatter_add(x, i, s) }}"
    name = f"scatter_add {count} slices of {SLICE} to {FEW_PLACES} {how}"
    moved = 4 * (count + elements + 2 * FEW_PLACES * SLICE)
    return OrderCase(name, text, arrays, added, lambda t, x, i, s: x.index_add(0, i, s), moved)


def scatter_cases(elements: int, how: str) -> Iterator[OrderCase]:
    """Scatters of so many elements into as many places, into a few, and into one."""
    generator = np.random.default_rng(1)
    for places in dict.fromkeys((elements, min(elements, FEW_PLACES), 1)):
        ids = drawn_ids(generator, how, places, elements)
        arrays = {
            "x": generator.standard_normal(places, np.float32),
            "i": ids,
            "s": generator.standard_normal(elements, np.float32),
        }
        given = f"x: f32[{places}], i: i32[{elements}], s: f32[{elements}]"
        moved = 4 * (2 * elements + 2 * places)

        def added(x: np.ndarray, i: np.ndarray, s: np.ndarray) -> np.ndarray:
            return x + np.bincount(i, s, x.size)

        def written(x: np.ndarray, i: np.ndarray, s: np.ndarray) -> np.ndarray:
            result = x.copy()
            result[i] = s
            return result

        for call, numpy, torch in (
            ("scatter_add", added, lambda t, x, i, s: x.index_add(0, i, s)),
            ("scatter", written, lambda t, x, i, s: x.scatter(0, i.long(), s)),
        ):
            text = f"graph g({given}) {{ return y = {call}(x, i, s) }}"
            name = f"{call} {elements} to {places} {how}"
            yield OrderCase(name, text, arrays, numpy, torch, moved)
