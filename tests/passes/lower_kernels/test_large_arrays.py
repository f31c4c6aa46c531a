"""More than 2³¹ elements: indices are as wide as they must be, and no wider; the rest is refused.

Most values here are never in memory: `iota` counts them, and what is computed is a slice or a sum.
"""

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import ops
from mgn.diagnostics import MgnError
from mgn.dialects.kernel import DEVICES, Device, needs_wide_index
from mgn.runtime.errors import DeviceError
from tests.support.lower_fixture import FORMS, forms_of, fused_kernel, lowered, run_all
from tests.support.opencl_fixture import cl_queue, kernel  # noqa: F401

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")
WIDE = 1 << 31
"""The first number that 32 bits do not hold."""

LINE = 1 << 16
"""Elements of a row; WIDE are as many rows of them."""

Template = Callable[[int], tuple[str, list[tuple[str, tuple[int, ...]]], Callable[..., Any]]]

TEMPLATES: dict[str, Template] = {
    "pointwise": lambda n: (
        "pointwise",
        [("i8", (n, LINE)), ("i8", (LINE,))],
        lambda b, x, y: b.add(x, y),
    ),
    "transposed": lambda n: (
        "pointwise",
        [("i8", (n, LINE))],
        lambda b, x: b.transpose(x, (1, 0)),
    ),
    "joined": lambda n: (
        "pointwise",
        [("i8", (n // 2, LINE)), ("i8", (n // 2, LINE))],
        lambda b, x, y: b.concat([x, y], axis=0),
    ),
    "padded": lambda n: (
        "pointwise",
        [("i8", (5, LINE))],
        lambda b, x: b.pad(x, ((n - 5, 0), (0, 0))),
    ),
    "rows": lambda n: ("reduction", [("f32", (n, LINE))], lambda b, x: b.sum(x, axis=1)),
    "columns": lambda n: ("reduction", [("f32", (n, LINE))], lambda b, x: b.sum(x, axis=0)),
    "counted": lambda n: (
        "reduction",
        [("i64", (1,))],
        lambda b, x: b.sum(b.add(b.iota((n * LINE,), T="i64"), x)),
    ),
    "scan": lambda n: ("scan", [("f32", (n, LINE))], lambda b, x: b.running_sum(x, axis=1)),
    "product": lambda n: (
        "contraction",
        [("f32", (n, LINE)), ("f32", (LINE, 64))],
        lambda b, x, y: b.matmul(x, y),
    ),
    "one row": lambda n: (
        "contraction",
        [("f32", (1, LINE)), ("f32", (LINE, n))],
        lambda b, x, y: b.matmul(x, y),
    ),
    "half precision": lambda n: (
        "contraction",
        [("bf16", (n, LINE)), ("bf16", (LINE, 128))],
        lambda b, x, y: b.matmul(x, y),
    ),
    "gather": lambda n: (
        "gather",
        [("f32", (n, LINE)), ("i32", (7,))],
        lambda b, x, ids: b.gather(x, ids, axis=0),
    ),
    "attention": lambda n: (
        "attention",
        [("f32", (n * 16, 32, 128))] * 3,
        lambda b, q, k, v: b.attention(q, k, v, heads=2),
    ),
}
"""A kernel of each template, with `n` rows of the largest that it reads or counts."""

DEVICE_FORMS: dict[str, Device] = {**FORMS, "h200": DEVICES["nvidia-h200"]}


@pytest.mark.parametrize("form", DEVICE_FORMS)
@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_counts_in_64_bits_where_32_are_too_few_and_nowhere_else(
    template: str, form: str
) -> None:
    def is_wide(rows: int) -> bool:
        fused = fused_kernel(*TEMPLATES[template](rows))
        return needs_wide_index(lowered(fused, DEVICE_FORMS[form]))

    rows = WIDE // LINE
    assert not is_wide(rows - 256)
    assert is_wide(rows + 2)


END = 5 * 10**9
COUNT = f"iota([{END}], T = i64)"

VIRTUAL: dict[str, Any] = {
    f"{COUNT}[{END - 3}:{END}]": [END - 3, END - 2, END - 1],
    f"{COUNT}[4294967295:4294967297]": [2**32 - 1, 2**32],
    f"{COUNT}[0:{END}:1000000000]": [n * 10**9 for n in range(5)],
    f"flip({COUNT}, axis = 0)[{END - 2}:{END}]": [1, 0],
    f"reshape({COUNT}, [50000, 100000])[49999, 99998:100000]": [END - 2, END - 1],
    f"reshape({COUNT}, [50000, 100000]).T[99998:100000, 49999]": [END - 2, END - 1],
    f"reshape({COUNT}, [2, 2500000000])[1, 2499999998:2500000000] / 2": [2499999999, 2499999999],
    f"concat([{COUNT}, {COUNT}], axis = 0)[{END - 2}:{END + 2}]": [END - 2, END - 1, 0, 1],
    f"pad({COUNT}, [[2000000000, 3]], 7)[1999999999:2000000002]": [7, 0, 1],
    f"pad({COUNT}, [[2000000000, 3]], 7)[6999999999:7000000001]": [END - 1, 7],
    f"gather({COUNT}, ids, axis = 0)": [END - 1, WIDE, 0],
    f"embedding(ids, reshape({COUNT}, [{END}, 1]))[:, 0]": [END - 1, WIDE, 0],
    f"take_along_axis({COUNT}, ids, axis = 0)": [END - 1, WIDE, 0],
    f"dynamic_slice({COUNT}, [last], [3])": [WIDE - 1, WIDE, WIDE + 1],
    f"one_hot(ids, {END}, T = i64)[0, {END - 2}:{END}]": [0, 1],
    f"one_hot(last, {END}, T = i64)[{WIDE - 1}:{WIDE + 1}]": [1, 0],
    "tril(full([3000000000, 2], 5, T = i64), k = -2999999998)[2999999998:3000000000]": [
        [5, 0],
        [5, 5],
    ],
    f"cumsum({COUNT}[{END - 2}:{END}], axis = 0)": [END - 2, 2 * END - 3],
    f"sum(reshape({COUNT}, [50000, 100000])[49998:50000, 99999:100000], axis = 1)": [
        END - 100001,
        END - 1,
    ],
    "cast(iota([4294967296], T = u32)[4294967294:4294967296], i64)": [2**32 - 2, 2**32 - 1],
    f"cast(iota([{END}], T = f64)[{END - 2}:{END}], i64)": [END - 2, END - 1],
    f"iota([3, {END}], axis = 0, T = i8)[2, {END - 1}:{END}]": [2],
    "sum(iota([3000000000], T = i64))": 3000000000 * 2999999999 // 2,
    "argmax(iota([2200000000], T = i64), T = i64)": 2199999999,
}
"""Expressions whose values are never in memory as a whole, and what they are."""


def test_values_beyond_two_to_the_31_are_those_of_their_places(device_target: str) -> None:
    results = ", ".join(f"r{n} = {text}" for n, text in enumerate(VIRTUAL))
    module = mgn.parse(f"graph g(ids: i64[3], last: i32[]) {{ return {results} }}")
    exe = mgn.compile(module, device=DEVICE, target=device_target)
    out = exe(ids=np.array([END - 1, WIDE, 0]), last=np.int32(WIDE - 1))
    for n, (text, want) in enumerate(VIRTUAL.items()):
        np.testing.assert_array_equal(out[f"r{n}"], want, text)


FAR = WIDE + LINE


def _all_counted(b: Any, x: Any) -> Any:
    return b.sum(b.add(b.iota((FAR,), T="i64"), x))


def _last_columns(b: Any, x: Any) -> Any:
    table = b.reshape(b.iota((FAR,), T="i64"), (LINE, FAR // LINE))
    return b.max_reduce(b.add(b.slice(table, (LINE - 64, 0), (LINE, FAR // LINE)), x), axis=0)


def _last_rows(b: Any, x: Any) -> Any:
    table = b.reshape(b.iota((FAR,), T="i64"), (LINE, FAR // LINE))
    return b.sum(b.add(b.slice(table, (LINE - 64, 0), (LINE, FAR // LINE)), x), axis=1)


def _turned(b: Any, x: Any) -> Any:
    return b.transpose(b.add(_last_columns_of(b), x), (1, 0))


def _last_columns_of(b: Any) -> Any:
    table = b.reshape(b.iota((FAR,), T="i64"), (LINE, FAR // LINE))
    return b.slice(table, (LINE - 64, FAR // LINE - 64), (LINE, FAR // LINE))


_TABLE = np.arange(FAR - 64 * (FAR // LINE), FAR).reshape(64, FAR // LINE)


@pytest.mark.parametrize(
    ("kind", "build", "want"),
    [
        ("reduction", _all_counted, FAR * (FAR - 1) // 2),
        ("reduction", _last_columns, _TABLE.max(axis=0)),
        ("reduction", _last_rows, _TABLE.sum(axis=1)),
        ("pointwise", _turned, _TABLE[:, -64:].T),
    ],
)
def test_every_form_of_a_template_counts_on_past_two_to_the_31(
    cl_queue: Any,  # noqa: F811
    kind: str,
    build: Callable[..., Any],
    want: Any,
) -> None:
    runs = forms_of(fused_kernel(kind, [("i64", (1,))], build), [np.zeros(1, np.int64)])
    for item, (got,) in zip(runs, run_all(cl_queue, runs), strict=True):
        np.testing.assert_array_equal(got, want, item.what)


REFUSED = {
    "argmax(iota([3000000000], T = i64))": (
        "1:29: error: argmax: i32 does not hold indices up to 2999999999: ask for T = i64"
    ),
    "argmin(full([65536, 32769], 1.0))": "i32 does not hold indices up to 2147549183",
    "argmax(x, T = f32)": "an index is i32 or i64, not f32",
    "iota([2147483649])": "iota counts to 2147483648, but i32 to 2147483647: ask for T = i64",
    "iota([300], T = u8)": "iota counts to 299, but u8 to 255: ask for T = i32",
    "full([3037000500, 3037000500], 1, T = i8)": "is too large: over 2**63 bytes",
    "broadcast_to(x, [4294967296, 4294967296, 4, 4])": "is too large: over 2**63 bytes",
    "rope(full([2147483649, 2], 1.0), head_dim = 2)": "does not number 2147483649 rows",
    "attention(x, full([2147483648, 4], 1.0), full([2147483648, 4], 1.0), heads = 1)": (
        "2147483648 positions are more than"
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_32_or_64_bits_do_not_hold_is_an_error_at_its_place(text: str) -> None:
    with pytest.raises(MgnError) as raised:
        mgn.optimize(mgn.parse(f"graph g(x: f32[4, 4]) {{ y = {text}\n return y }}"))
    message = str(raised.value)
    assert REFUSED[text] in message and "<text>:1:" in message


def test_indices_that_i32_just_holds_are_i32() -> None:
    module = mgn.parse("graph g() { return y = argmax(full([2147483648], 1.0)) }")
    exe = mgn.compile(module, device=DEVICE)
    assert exe()["y"].dtype == np.int32 and exe()["y"] == 0


def test_an_index_is_i64_by_request() -> None:
    x = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    text = (
        "graph g(x: f32[4, 9]) { return a = argmax(x, axis = 1, T = i64), b = argmin(x, T = i64) }"
    )
    out = mgn.compile(mgn.parse(text), device=DEVICE)(x=x)
    assert out["a"].dtype == out["b"].dtype == np.int64
    np.testing.assert_array_equal(out["a"], x.argmax(1))
    assert out["b"] == x.argmin()
    with mgn.graph("built") as built:
        built.output(y=ops.argmax(built.input("x", "f32[4, 9]"), axis=0, T="i64"))
    np.testing.assert_array_equal(mgn.compile(built, device=DEVICE)(x=x)["y"], x.argmax(0))


@pytest.mark.parametrize("size", ["300000000000", "4000000000, 100000000"])
def test_what_a_device_has_no_room_for_is_refused_before_it_is_allocated(size: str) -> None:
    module = mgn.parse(f"graph g(x: f32[{size}]) {{ return y = relu(x) }}")
    with pytest.raises(DeviceError, match=r"has no \d+ bytes for 'g'"):
        mgn.compile(module, device=DEVICE)


WIDTHS = {
    "%i = kernel.global_id 0": False,
    "%i = kernel.global_id 0\n%c = arith.constant 300000 : index\n"
    "%j = arith.muli %i, %c : index": True,
    "%i = kernel.global_id 0\n%c = arith.constant 200000 : index\n"
    "%j = arith.muli %i, %c : index": False,
    "%i = kernel.global_id 0\n%c = arith.constant 300000 : index\n%d = arith.constant 9 : index\n"
    "%q = arith.divsi %i, %d : index\n%j = arith.muli %q, %c : index": False,
    "%c = arith.constant 5000000000 : i64\n%i = arith.index_cast %c : i64 to index": True,
    "%v = memref.load %x[%zero] : memref<4xi64>\n%i = arith.index_cast %v : i64 to index": True,
    "%v = memref.load %x[%zero] : memref<4xi64>\n%c = arith.constant 3 : i64\n"
    "%l = arith.constant 0 : i64\n%m = arith.maxsi %v, %l : i64\n%n = arith.minsi %m, %c : i64\n"
    "%i = arith.index_cast %n : i64 to index": False,
    "%e = arith.constant 2147483647 : index\n%s = arith.constant 1 : index\n"
    "scf.for %k = %zero to %e step %s {\n}": False,
    "%e = arith.constant 2147483647 : index\n%s = arith.constant 2 : index\n"
    "scf.for %k = %zero to %e step %s {\n}": True,
    "%c = arith.constant -5 : index\n%i = kernel.global_id 0\n"
    "%j = arith.xori %i, %c : index": False,
    "%v = arith.constant dense<[1, 3000000000]> : vector<2xindex>": True,
}
"""Lines of a kernel of 10,000 work-items, and whether an index of it needs 64 bits."""


@pytest.mark.parametrize("lines", WIDTHS)
def test_the_width_of_an_index_follows_from_what_is_known_of_it(lines: str) -> None:
    text = (
        "kernel.func @k(%x : memref<4xi64>) access [read] global [10000, 1, 1] local [1, 1, 1] {\n"
        f"%zero = arith.constant 0 : index\n{lines}\nkernel.return }}"
    )
    assert needs_wide_index(kernel(text)) is WIDTHS[lines]
