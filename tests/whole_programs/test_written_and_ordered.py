"""What is written at ids and starts, put in order, and scanned: 20 shapes of each operation.

One program holds all calls of an operation. It runs on the device, as OpenCL C and as SPIR-V. Loops
and sorts by NumPy are the reference.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.types import ELEMENT_TYPES
from tests.conftest import targets_of_the_device
from tests.dialects.case_references import scattered, with_part

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")
Array = np.ndarray
Shape = tuple[int, ...]
Arrays = Mapping[str, Array]
CASES = 20


class Calls:
    """Calls of an operation with random operands, and what each should give."""

    def __init__(self, seed: str) -> None:
        self.random = np.random.default_rng(list(seed.encode()))
        self.heads: list[str] = []
        self.lines: list[str] = []
        self.inputs: dict[str, Array] = {}
        self.wanted: dict[str, Array] = {}

    def shape(self, least: int = 1) -> Shape:
        """Odd sizes, and axes of 1 and 0."""
        rank = int(self.random.integers(least, 4))
        return tuple(int(n) for n in self.random.choice([0, 1, 2, 3, 5, 8, 13, 33], rank))

    def axis(self, shape: Shape) -> int:
        return int(self.random.integers(-len(shape), len(shape)))

    def element(self, *names: str) -> str:
        return str(self.random.choice(names))

    def given(self, array: Array, element: str) -> str:
        """The name of an input."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = array.astype(ELEMENT_TYPES[element].dtype)
        self.heads.append(f"{name}: {element}[{', '.join(map(str, array.shape))}]")
        return name

    def values(self, shape: Shape, element: str, ties: bool = False) -> Array:
        row = ELEMENT_TYPES[element]
        if not row.is_float:
            low = 0 if element[0] in "ub" else -9
            return self.random.integers(low, 2 if element == "bool" else 9, shape).astype(row.dtype)
        values = self.random.normal(size=shape)
        return (np.round(values * 2) if ties else values).astype(row.dtype)

    def returns(self, call: str, *wanted: Array) -> None:
        names = [f"y{len(self.wanted) + n}" for n in range(len(wanted))]
        self.lines.append(f"  {', '.join(names)} = {call}")
        self.wanted.update(zip(names, wanted, strict=True))

    @property
    def text(self) -> str:
        lines = [*self.lines, f"  return {', '.join(self.wanted)}"]
        return f"graph g({', '.join(self.heads)}) {{\n" + "\n".join(lines) + "\n}"


def update(calls: Calls) -> None:
    shape, element = calls.shape(), calls.element("f32", "f16", "i64", "bool", "u8", "f64")
    x = calls.values(shape, element)
    part = calls.values(tuple(int(calls.random.integers(0, n + 1)) for n in shape), element)
    starts = calls.random.integers(-2, 9, len(shape)).astype(np.int32)
    inside = [
        min(max(int(start), 0), size - own)
        for start, size, own in zip(starts, shape, part.shape, strict=True)
    ]
    names = calls.given(x, element), calls.given(part, element)
    if calls.random.random() < 0.5:
        text = calls.given(starts, "i32")
    else:
        text = f"[{', '.join(map(str, starts))}]"
    wanted = with_part(x, part, tuple(inside))
    calls.returns(f"dynamic_update_slice({', '.join(names)}, {text})", wanted)


def scatter(calls: Calls, adds: bool) -> None:
    shape = calls.shape()
    axis = calls.axis(shape)
    place = axis % len(shape)
    elements = ("f32", "f64", "bf16", "i32", "u8") if adds else ("f32", "f16", "bool", "i64")
    element, count = calls.element(*elements), int(calls.random.choice([0, 1, 4, 19, 70]))
    count = count if shape[place] else 0
    if calls.random.random() < 0.5:
        index: Shape = (*shape[:place], count, *shape[place + 1 :])
        given = index
    else:
        index = (count,) if calls.random.random() < 0.5 else (2, count)
        given = (*shape[:place], *index, *shape[place + 1 :])
    ids = calls.random.integers(-1, shape[place] + 2, index).astype(np.int32)
    x, src = calls.values(shape, element), calls.values(given, element)
    wide = [item.astype(np.float64) if adds and element[0] in "fb" else item for item in (x, src)]
    wanted = scattered(wide[0], ids, wide[1], place, adds)
    names = calls.given(x, element), calls.given(ids, "i32"), calls.given(src, element)
    name = "scatter_add" if adds else "scatter"
    calls.returns(f"{name}({', '.join(names)}, axis = {axis})", wanted)


def keyed(calls: Calls) -> tuple[str, Array, int, Callable[[bool], Array]]:
    """A value with ties and NaN, and its stable order."""
    shape = calls.shape()
    element = calls.element("f32", "f64", "f16", "bf16", "i32", "u8", "bool", "i64")
    axis, x = calls.axis(shape), calls.values(shape, element, ties=True)
    if ELEMENT_TYPES[element].is_float and x.size > 5:
        x.reshape(-1)[calls.random.integers(0, x.size, 3)] = np.nan

    def order(descending: bool) -> Array:
        wide = x.astype(np.float64)
        return np.argsort(-wide if descending else wide, axis, kind="stable")

    return calls.given(x, element), x, axis, order


def sort(calls: Calls, name: str) -> None:
    value, x, axis, order = keyed(calls)
    descending = bool(calls.random.random() < 0.5)
    places = order(descending)
    wanted = np.take_along_axis(x, places, axis) if name == "sort" else places
    word = str(descending).lower()
    calls.returns(f"{name}({value}, axis = {axis}, descending = {word})", wanted)


def topk(calls: Calls) -> None:
    value, x, axis, order = keyed(calls)
    k = int(calls.random.integers(0, x.shape[axis] + 1))
    best = np.take(order(True), range(k), axis)
    wanted = np.take_along_axis(x, best, axis)
    calls.returns(f"topk({value}, {k}, axis = {axis})", wanted, best)


def cumprod(calls: Calls) -> None:
    shape, element = calls.shape(), calls.element("f32", "f64", "f16", "i32")
    axis, x = calls.axis(shape), calls.values(shape, element)
    wide = x if element == "i32" else x.astype(np.float64)
    wanted = np.cumprod(wide, axis, dtype=wide.dtype)
    calls.returns(f"cumprod({calls.given(x, element)}, axis = {axis})", wanted)


MAKERS: dict[str, Callable[[Calls], None]] = {
    "dynamic_update_slice": update,
    "scatter_add": lambda calls: scatter(calls, True),
    "scatter": lambda calls: scatter(calls, False),
    "sort": lambda calls: sort(calls, "sort"),
    "argsort": lambda calls: sort(calls, "argsort"),
    "topk": topk,
    "cumprod": cumprod,
}


def near(got: Array, want: Array, what: str) -> None:
    """Equal; sums and products of floats within the roundings of 200 terms, which are below 5."""
    assert got.shape == want.shape, what
    if got.dtype.kind in "biu":
        np.testing.assert_array_equal(got, want.astype(got.dtype), what)
        return
    unit = {"float64": 2.0**-52, "float32": 2.0**-23}.get(got.dtype.name, 2.0**-7)
    wide, want = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(wide), np.isnan(want), what)
    bound = unit * (2 * np.abs(want) + 200)
    if want.dtype == np.float64 and not np.array_equal(wide, want, equal_nan=True):
        exact = np.isfinite(want)
        assert np.all(np.abs(wide - want)[exact] <= bound[exact]), what


@pytest.mark.parametrize("name", MAKERS)
def test_twenty_shapes_of_an_operation_are_right_everywhere(name: str) -> None:
    calls = Calls(name)
    for _ in range(CASES):
        MAKERS[name](calls)
    module = mgn.parse(calls.text)
    (graph,) = graphs_of(module.lower())
    interpreted = Interpreter().run(graph, calls.inputs)
    for label, want in calls.wanted.items():
        near(np.asarray(interpreted[label]), want, f"{name} {label} interpreted")
    for target in targets_of_the_device():
        found: Mapping[str, Any] = mgn.compile(module, device=DEVICE, target=target)(**calls.inputs)
        for label, want in calls.wanted.items():
            near(found[label], want, f"{name} {label} by {target}")


def test_long_rows_are_sorted_by_merging_runs() -> None:
    text = (
        "graph g(x: f32[3, 10001], y: i64[70001]) {\n  v, p = topk(y, 20)\n  w, q = topk(y, 3000)\n"
        "  return a = sort(x), b = argsort(x, descending = true), c = argsort(y), v, p, w, q\n}"
    )
    random = np.random.default_rng(5)
    x = np.round(random.normal(size=(3, 10001)) * 50).astype(np.float32)
    x[1, random.integers(0, 10001, 40)] = np.nan
    y = random.integers(-1000, 1000, 70001)
    found = mgn.compile(mgn.parse(text), device=DEVICE)(x=x, y=y)
    np.testing.assert_array_equal(found["a"], np.sort(x, -1))
    np.testing.assert_array_equal(found["b"], np.argsort(-x, -1, kind="stable"))
    np.testing.assert_array_equal(found["c"], np.argsort(y, kind="stable"))
    best = np.argsort(-y, kind="stable")
    for count, values, where in ((20, "v", "p"), (3000, "w", "q")):
        np.testing.assert_array_equal(found[where], best[:count])
        np.testing.assert_array_equal(found[values], y[best[:count]])


def test_a_scatter_gives_the_same_bits_on_every_run() -> None:
    text = (
        "graph g(x: f32[100], i: i32[20000], s: f32[20000]) {\n"
        "  return y = scatter_add(x, i, s), z = scatter(x, i, s)\n}"
    )
    random = np.random.default_rng(6)
    inputs = {
        "x": random.normal(size=100).astype(np.float32),
        "i": random.integers(0, 100, 20000).astype(np.int32),
        "s": random.normal(size=20000).astype(np.float32),
    }
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    first = {name: np.array(value) for name, value in exe(**inputs).items()}
    for _ in range(5):
        again = exe(**inputs)
        assert all(np.array_equal(first[name], again[name]) for name in first)


def test_a_cache_row_is_written_where_the_cache_lies() -> None:
    text = (
        "graph g(x: f32[64, 512], r: f32[1, 512], p: i32) {\n"
        "  c = x * 2.0\n  return y = dynamic_update_slice(c, exp(r), [p, 0])\n}"
    )
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    x, r = np.ones((64, 512), np.float32), np.zeros((1, 512), np.float32)
    for place, row in ((7, 7), (-3, 0), (99, 63)):
        y = exe(x=x, r=r, p=np.int32(place))["y"]
        assert np.all(y[row] == 1.0) and y.sum() == 2 * 63 * 512 + 512
