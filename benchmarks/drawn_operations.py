"""`python -m benchmarks.drawn_operations [--count 60] [--seed 0] [--only WORD]`: single operations
of many kinds and random sizes beside PyTorch, by processor time on one core, the slowest beside it
last.

In: PyTorch. Out: a row for each: least milliseconds of both, where mgn's inputs lie on the device,
those of a call that copies them there, and how many times as long as PyTorch's mgn's run takes.
Results are compared before.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from typing import Any

import numpy as np

import mgn
from benchmarks.one_core import Clock, on_one_core, timed_by
from benchmarks.table import Table
from mgn.bench.timing import Turns, interleaved_times

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-3
"""The largest error, by the largest result: products of many factors in f32 are off by so much."""

TURNS = Turns(3, 0.08, 0.0, least=3)
"""Turns of each contestant, whose processor time is counted."""

MOST = 4_000_000
"""Elements of an operand."""


@dataclass(frozen=True)
class Drawn:
    """An operation: its inputs, what mgn's text returns of them, and the same in PyTorch."""

    inputs: Mapping[str, Array]
    text: str
    peer: Callable[..., Any]
    params: Mapping[str, Array] = field(default_factory=dict[str, Array])
    names: str = "y"

    @property
    def program(self) -> str:
        """A graph with the one operation."""
        inputs = ", ".join(f"{name}: {_type(array)}" for name, array in self.inputs.items())
        params = "".join(f"  param {name}: {_type(x)}\n" for name, x in self.params.items())
        return f"graph g({inputs}) {{\n{params}  {self.names} = {self.text}\n  return y\n}}"


def _type(array: Array) -> str:
    return f"{'f32' if array.dtype == np.float32 else 'i32'}{list(array.shape)}"


class Dice:
    """Sizes and numbers."""

    def __init__(self, seed: int) -> None:
        self.generator = np.random.default_rng(seed)

    def numbers(self, *shape: int) -> Array:
        return self.generator.standard_normal(shape, np.float32)

    def ids(self, count: int, *shape: int) -> Array:
        return self.generator.integers(0, count, shape).astype(np.int32)

    def size(self, low: int, high: int) -> int:
        """One of any magnitude."""
        return int(2 ** self.generator.uniform(log2(low), log2(high)))

    def one(self, *choices: Any) -> Any:
        return choices[int(self.generator.integers(len(choices)))]

    def image(self) -> Array:
        n, c, side = self.one(1, 1, 4), self.one(3, 16, 32, 64, 100), self.size(8, 200)
        while n * c * side * side > MOST:
            side = side * 2 // 3
        return self.numbers(n, c, side, side)

    def rows(self) -> Array:
        rows, length = self.size(1, 4096), self.size(8, 20000)
        rows = min(rows, MOST // length)
        return self.numbers(max(rows, 20000 // length + 1), length)


def _pooling(d: Dice, t: Any) -> Drawn:
    x, k, kind = d.image(), d.one(2, 3, 5, 7), d.one("max", "avg")
    how = (k, d.one(1, 2, k), d.one(0, k // 2))
    peer = getattr(t.nn.functional, f"{kind}_pool2d")
    text = f"{kind}_pool2d(x, {k}, stride = {how[1]}, padding = {how[2]})"
    return Drawn({"x": x}, text, lambda x: peer(x, *how))


def _depthwise(d: Dice, t: Any) -> Drawn:
    x, k, step = d.image(), d.one(3, 5, 7, 9, 13), d.one(1, 1, 2, 3)
    c = x.shape[1]
    how = {"stride": step, "padding": k // 2, "groups": c}
    text = "conv2d(x, w, " + ", ".join(f"{name} = {value}" for name, value in how.items()) + ")"
    conv = t.nn.functional.conv2d
    return Drawn({"x": x}, text, lambda x, w: conv(x, w, **how), {"w": d.numbers(c, 1, k, k)})


def _upsample(d: Dice, t: Any) -> Drawn:
    x, k, mode = d.image()[..., ::2, ::2].copy(), d.one(2, 3), d.one("nearest", "bilinear")
    resize = t.nn.functional.interpolate
    text = f'upsample(x, {k}, mode = "{mode}")'
    return Drawn({"x": x}, text, lambda x: resize(x, scale_factor=k, mode=mode))


def _group_norm(d: Dice, t: Any) -> Drawn:
    x = d.image()
    c = x.shape[1]
    groups = d.one(1, c, c // 4 if c % 4 == 0 else 1)
    norm = t.nn.functional.group_norm
    inputs = {"x": x, "w": d.numbers(c), "b": d.numbers(c)}
    text = f"group_norm(x, w, b, groups = {groups}, eps = 1e-5)"
    return Drawn(inputs, text, lambda x, w, b: norm(x, groups, w, b))


def _batch_norm(d: Dice, t: Any) -> Drawn:
    x = d.image()
    own = {name: d.numbers(x.shape[1]) for name in "wbmv"}
    own["v"] = np.abs(own["v"]) + np.float32(0.1)
    norm = t.nn.functional.batch_norm
    return Drawn({"x": x, **own}, "batch_norm(x, w, b, m, v, eps = 1e-5)",
                 lambda x, w, b, m, v: norm(x, m, v, w, b))  # fmt: skip


def _layer_norm(d: Dice, t: Any) -> Drawn:
    x = d.rows()
    inputs = {"x": x, "w": d.numbers(x.shape[1]), "b": d.numbers(x.shape[1])}
    norm = t.nn.functional.layer_norm
    return Drawn(inputs, "layer_norm(x, w, b, eps = 1e-5)", lambda x, w, b: norm(x, w.shape, w, b))


def _softmax(d: Dice, t: Any) -> Drawn:
    name, axis = d.one("softmax", "log_softmax"), d.one(1, 1, 0)
    text = f"{name}(x, axis = {axis})"
    return Drawn({"x": d.rows()}, text, lambda x: getattr(t, name)(x, axis))


def _sort(d: Dice, t: Any) -> Drawn:
    down = d.one(False, True)
    text = f"sort(x, descending = {str(down).lower()})"
    return Drawn({"x": d.rows()}, text, lambda x: x.sort(descending=down)[0])


def _topk(d: Dice, t: Any) -> Drawn:
    x = d.rows()
    k = min(d.one(1, 2, 5, 10, 50, 100), x.shape[1])
    return Drawn({"x": x}, f"topk(x, {k})", lambda x: x.topk(k)[0], names="y, places")


def _scan(d: Dice, t: Any) -> Drawn:
    name, axis = d.one("cumsum", "cumprod"), d.one(1, 1, 0)
    x = np.float32(1.0) + np.float32(0.01) * d.rows()
    return Drawn({"x": x}, f"{name}(x, axis = {axis})", lambda x: getattr(x, name)(axis))


def _reduction(d: Dice, t: Any) -> Drawn:
    name, axis = d.one("sum", "mean", "argmax", "logsumexp"), d.one(1, 0)
    return Drawn({"x": d.rows()}, f"{name}(x, axis = {axis})", lambda x: getattr(x, name)(axis))


def _scatter(d: Dice, t: Any) -> Drawn:
    n, m, w = d.size(10, 50000), d.size(100, 50000), d.one(1, 8, 64)
    inputs = {"x": d.numbers(n, w), "ids": d.ids(n, m), "src": d.numbers(m, w)}
    return Drawn(inputs, "scatter_add(x, ids, src, axis = 0)",
                 lambda x, ids, src: x.index_add(0, ids, src))  # fmt: skip


def _take(d: Dice, t: Any) -> Drawn:
    x = d.rows()
    ids = d.ids(x.shape[1], len(x), d.size(1, x.shape[1] + 1))
    return Drawn({"x": x, "ids": ids}, "take_along_axis(x, ids, axis = 1)",
                 lambda x, ids: x.gather(1, ids.long()))  # fmt: skip


def _one_hot(d: Dice, t: Any) -> Drawn:
    count = d.size(3, 1000)
    one_hot = t.nn.functional.one_hot
    ids = d.ids(count, d.size(10, 4000))
    return Drawn({"x": ids}, f"one_hot(x, {count})", lambda x: one_hot(x.long(), count).float())


def _part(d: Dice, t: Any) -> Drawn:
    x = d.rows()
    sizes = [int(d.generator.integers(1, size + 1)) for size in x.shape]
    pairs = zip(x.shape, sizes, strict=True)
    a, b = (int(d.generator.integers(whole - size + 1)) for whole, size in pairs)
    inputs = {"x": x, "start": np.array([a, b], np.int32)}
    return Drawn(inputs, f"dynamic_slice(x, start, {sizes})",
                 lambda x, start: x[a : a + sizes[0], b : b + sizes[1]].clone())  # fmt: skip


def _moved(d: Dice, t: Any) -> Drawn:
    x, axis, k = d.rows(), d.one(0, 1), d.one(1, 2, 3)
    pad = [0, 0, k, k] if axis == 0 else [k, k, 0, 0]
    sides = [[k, k], [0, 0]] if axis == 0 else [[0, 0], [k, k]]
    return Drawn({"x": x}, *d.one(
        (f"concat([x, x * 2.0], axis = {axis})", lambda x: t.cat([x, x * 2.0], axis)),
        (f"pad(x, {sides}, 0.0)", lambda x: t.nn.functional.pad(x, pad)),
        (f"flip(x, [{axis}])", lambda x: x.flip(axis)),
        (f"repeat(x, 2, axis = {axis})", lambda x: x.repeat_interleave(2, axis)),
        ("tile(x, [2, 1])", lambda x: x.tile(2, 1)),
        ("tril(x)", lambda x: x.tril()),
    ))  # fmt: skip


KINDS: dict[str, Callable[[Dice, Any], Drawn]] = {
    "pooling": _pooling, "depthwise": _depthwise, "upsample": _upsample, "group_norm": _group_norm,
    "batch_norm": _batch_norm, "layer_norm": _layer_norm, "softmax": _softmax, "sort": _sort,
    "topk": _topk, "scan": _scan, "reduction": _reduction, "scatter": _scatter, "take": _take,
    "one_hot": _one_hot, "part": _part, "moved": _moved,
}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.drawn_operations")
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose name has this word")
    options = parser.parse_args(arguments)
    names = [name for name in KINDS if options.only in name]
    if not names:
        parser.error(f"no kind has '{options.only}' in its name; there are {', '.join(KINDS)}")
    clock, dice, rows = on_one_core(), Dice(options.seed), list[dict[str, Any]]()
    for number in range(options.count):
        rows.append(measured(names[number % len(names)], dice, clock))
    table = Table(80)
    for row in sorted(rows, key=lambda row: row["share"]):
        table.print(row)
    return 0


def measured(kind: str, dice: Dice, clock: Clock) -> dict[str, Any]:
    """A row. SystemExit where the result is wrong."""
    import torch

    case = KINDS[kind](dice, torch)
    executable = mgn.compile(mgn.parse(case.program), device="cpu")
    for name, array in case.params.items():
        executable.params[name] = array
    tensors = {name: torch.from_numpy(x) for name, x in {**case.inputs, **case.params}.items()}
    sizes = " ".join("×".join(map(str, x.shape)) for x in case.inputs.values())
    with torch.inference_mode():
        exact = {n: x.double() if x.is_floating_point() else x for n, x in tensors.items()}
        wanted = case.peer(**exact).numpy()
        found = next(iter(executable(**case.inputs).values()))
        error = np.abs(found - wanted).max(initial=0.0) / np.abs(wanted).max(initial=1e-30)
        if not error <= TOLERANCE:
            raise SystemExit(f"{case.program}: wrong result, relative error {error:.3g}")
        calls = {
            "mgn": executable.replay,
            "call": lambda: executable(**case.inputs),
            "torch": lambda: case.peer(**tensors),
        }
        timed = {name: timed_by(clock, call) for name, call in calls.items()}
        times = interleaved_times(timed, TURNS)
    least = {f"{name} ms": min(values) * 1e3 for name, values in times.items()}
    return {
        "operation": f"{case.text[:44]} of {sizes}"[:80],
        **least,
        "share": least["mgn ms"] / max(least["torch ms"], 1e-6),
    }


if __name__ == "__main__":
    sys.exit(main())
