"""Programs that several arrangements of kernels compute, and others that are drawn at random.

In: a device's kind, a seed. Out: `Program`s in the language: what models consist of, in sizes that
keep the device busy for some microseconds to milliseconds.
"""

import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PRECISIONS = ("f32", "tf32", "bf16")


@dataclass(frozen=True)
class Program:
    """A program with one graph, and what its products' operands are rounded to."""

    name: str
    text: str
    precision: str = "f32"

    @property
    def inputs(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """Element type and shape of each input."""
        return _declared(self.text.split("{")[0])

    @property
    def parameters(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each parameter."""
        texts = re.findall(r"param ([^;]+);", self.text)
        return {name: shape for name, (_, shape) in _declared(" ".join(texts)).items()}


def _declared(text: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Element type and shape of each name that a text declares."""
    return {
        name: (element, tuple(map(int, sizes.split(","))))
        for name, element, sizes in re.findall(r"(\w+): (\w+)\[([\d, ]+)\]", text)
    }


_Template = tuple[str, str, tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]

_PRODUCT = "(x: f32[A, B], w: f32[B, C]) { return y = x @ w }"
_HELD_PRODUCT = "(x: f32[A, B]) { param w: f32[B, C]; return y = x @ w }"
_TURNED_PRODUCT = "(x: f32[A, B], w: f32[C, B]) { return y = x @ w.T }"
_SWIGLU = "(x: f32[A, B]) { param g: f32[C, B]; param u: f32[C, B]; "
_HEADS = "(q: f32[A, B, C], k: f32[A, B, C], v: f32[A, B, C])"

TEMPLATES: tuple[_Template, ...] = (
    (
        "product",
        _PRODUCT,
        ((512, 512, 512), (333, 777, 555)),
        ((2048, 2048, 2048), (333, 9999, 777)),
    ),
    ("product of a long axis", _PRODUCT, ((64, 20000, 64),), ((64, 20000, 1000),)),
    ("product of a parameter", _HELD_PRODUCT, ((128, 576, 1536),), ((128, 576, 1536),)),
    (
        "decoding row",
        _HELD_PRODUCT,
        ((1, 2048, 2048), (4, 1024, 3072)),
        ((1, 4096, 4096), (4, 4096, 4096)),
    ),
    ("product of turned weights", _TURNED_PRODUCT, ((128, 576, 576),), ((1023, 1025, 1027),)),
    (
        "swiglu",
        _SWIGLU + "return y = silu(x @ g.T) * (x @ u.T) }",
        ((512, 512, 1024), (16, 576, 1536)),
        ((512, 512, 1024), (2048, 1024, 4096)),
    ),
    (
        "swiglu of untransposed weights",
        "(x: f32[A, B]) { param g: f32[B, C]; param u: f32[B, C]; "
        "return y = silu(x @ g) * (x @ u) }",
        ((128, 256, 512),),
        ((512, 512, 1024),),
    ),
    (
        "gelu feeding two products",
        "(x: f32[A, B], v: f32[B, C], w: f32[B, C]) { h = gelu(x); return y = h @ v, z = h @ w }",
        ((256, 512, 512), (64, 1024, 256)),
        ((1024, 1024, 1024), (128, 4096, 1024)),
    ),
    (
        "linear, gelu",
        "(x: f32[A, B], w: f32[C, B], b: f32[C]) { return y = gelu(linear(x, w, b)) }",
        ((256, 512, 1024),),
        ((512, 768, 3072),),
    ),
    (
        "norm, product",
        "(x: f32[A, B], g: f32[B], w: f32[C, B]) { return y = rms_norm(x, g) @ w.T }",
        ((128, 576, 576),),
        ((128, 576, 1536), (2048, 1024, 1024)),
    ),
    (
        "scaled columns, product",
        "(x: f32[A, B], s: f32[B], w: f32[B, C]) { return y = (x * s) @ w }",
        ((256, 256, 1024),),
        ((1024, 1024, 2048),),
    ),
    (
        "product, softmax",
        "(x: f32[A, B], w: f32[B, C]) { return y = softmax(x @ w * 0.125) }",
        ((512, 64, 512),),
        ((4096, 64, 1024),),
    ),
    (
        "sum of two products",
        "(x: f32[A, B], y: f32[A, B], v: f32[B, C], w: f32[B, C]) { return z = x @ v + y @ w }",
        ((256, 256, 256),),
        ((1024, 1024, 1024),),
    ),
    (
        "attention",
        "(q: f32[A, B], k: f32[A, B], v: f32[A, B]) "
        "{ return y = attention(q, k, v, heads = C, causal = true) }",
        ((256, 256, 4),),
        ((2048, 1024, 16),),
    ),
    (
        "spelled attention",
        _HEADS + " { return y = softmax(q @ k.T * 0.125) @ v }",
        ((4, 256, 64), (1, 512, 64)),
        ((16, 1024, 64), (1, 2048, 128)),
    ),
    (
        "decoding attention",
        "(q: f32[1, B], k: f32[A, B], v: f32[A, B]) { return y = attention(q, k, v, heads = C) }",
        ((2048, 512, 8),),
        ((8192, 1024, 8),),
    ),
    (
        "softmax",
        "(x: f32[A, B]) { return y = softmax(x) }",
        ((512, 768), (2, 300000)),
        ((4096, 1024), (2, 3000000)),
    ),
    (
        "layer norm",
        "(x: f32[A, B], y: f32[A, B], w: f32[B]) { return z = layer_norm(x + y, w, w) }",
        ((1024, 768),),
        ((8192, 1024),),
    ),
    (
        "residual kept, rms norm",
        "(x: f32[A, B], y: f32[A, B], w: f32[B]) { s = x + y; return s, n = rms_norm(s, w) }",
        ((1024, 768),),
        ((8192, 1024),),
    ),
    (
        "cross entropy",
        "(x: f32[A, B], ids: i32[A]) { return y = cross_entropy(x, ids) }",
        ((512, 768), (64, 16384)),
        ((4096, 1024), (1024, 49152)),
    ),
    ("sum of all", "(x: f32[A]) { return y = sum(x * x) }", ((3000000,),), ((67108864,),)),
    (
        "sums of columns",
        "(x: f32[A, B]) { return y = sum(x, axis = 0) }",
        ((4096, 512),),
        ((16384, 4096),),
    ),
    (
        "three statistics",
        "(x: f32[A, B]) { return a = max_reduce(x, axis = 1), b = sum(x, axis = 1), "
        "c = sum(x * x, axis = 1) }",
        ((1024, 1024),),
        ((16384, 1024),),
    ),
    (
        "transpose and add",
        "(x: f32[B, A], y: f32[A, B]) { return z = relu(x.T) + y }",
        ((1024, 768),),
        ((4096, 4096),),
    ),
    (
        "heads apart",
        "(x: f32[A, B]) { return y = transpose(reshape(x, [A, C, -1]), [1, 0, 2]) * 0.5 }",
        ((1024, 768, 12),),
        ((8192, 1024, 16),),
    ),
    (
        "column broadcast",
        "(x: f32[A, B], c: f32[A, 1]) { for i in 0..6 { c = tanh(c) }; return y = x + c }",
        ((2048, 512),),
        ((8192, 2048),),
    ),
    (
        "chain with two users",
        "(x: f32[A, B], y: f32[A, B]) { e = exp(x * 0.1) + tanh(y); "
        "return a = e / (e + 1.0), b = sum(e, axis = 1) }",
        ((1024, 512),),
        ((8192, 2048),),
    ),
    (
        "gather, norm",
        "(ids: i32[A], t: f32[5000, B], w: f32[B]) "
        "{ return y = rms_norm(embedding(ids, t) * 2.0, w) }",
        ((512, 576),),
        ((8192, 1024),),
    ),
    (
        "cumulative sum of a product",
        "(x: f32[A, B], y: f32[A, B]) { return z = cumsum(exp(x) * y, axis = 1) }",
        ((512, 512),),
        ((4096, 512),),
    ),
)
"""Name, text in sizes A, B and C, sizes on a CPU, sizes on a GPU."""

ROUNDED = ("product", "swiglu", "gelu feeding two", "norm, product", "attention", "decoding row")
"""What is also measured with operands rounded for a matrix unit: names that begin so."""


def _filled(text: str, sizes: tuple[int, ...]) -> str:
    """A text with its sizes; `.T` is the language's own."""
    named = dict(zip("ABC", map(str, sizes), strict=False))
    return "graph g" + re.sub(r"(?<![\w.])([ABC])\b", lambda found: named[found[1]], text)


def known_programs(on_gpu: bool) -> Iterator[Program]:
    """The programs that are measured each time, for a matrix unit too where there is one."""
    for name, text, *sizes in TEMPLATES:
        for shape in sizes[on_gpu]:
            rounded = on_gpu and name.startswith(ROUNDED) and "i32" not in text
            for precision in PRECISIONS if rounded else PRECISIONS[:1]:
                shown = f"{name} {'×'.join(map(str, shape))}"
                suffix = "" if precision == "f32" else f" {precision}"
                yield Program(shown + suffix, _filled(text, shape), precision)


def drawn_programs(on_gpu: bool, seed: int, count: int) -> Iterator[Program]:
    """Layers drawn at random: a few steps from one matrix to the next, some read twice."""
    for number in range(count):
        yield _drawn(random.Random(seed * 1000 + number), f"drawn {seed}.{number}", on_gpu)


def _drawn(draw: random.Random, name: str, on_gpu: bool) -> Program:
    scale = 4 if on_gpu else 1
    sizes = [size * scale for size in (64, 192, 250, 512)]
    rows, width = draw.choice(sizes), draw.choice(sizes)
    inputs, lines, alike = [f"x: f32[{rows}, {width}]"], list[str](), ["x"]
    for step in range(draw.randint(2, 5)):
        value, kind = alike[-1], draw.choice(sorted(_STEPS))
        text = _STEPS[kind].format(value=value, other=draw.choice(alike), step=step)
        if kind.startswith("w"):
            columns = draw.choice(sizes)
            inputs.append(f"w{step}: f32[{width}, {columns}]")
            width, alike = columns, []
        elif kind == "f":
            inputs.append(f"f{step}: f32[{width}]")
        lines.append(f"v{step} = {text}")
        alike.append(f"v{step}")
    last, other = alike[-1], draw.choice(alike)
    returned = f"y = {last}" + ("" if other == last else f", z = {other} * 2.0")
    return Program(
        name, f"graph g({', '.join(inputs)}) {{ {'; '.join(lines)}; return {returned} }}"
    )


_STEPS = {
    "w": "{value} @ w{step}",
    "w, gelu": "gelu({value} @ w{step} * 0.1)",
    "f": "{value} * f{step}",
    "norm": "rms_norm({value})",
    "softmax": "softmax({value} * 0.1)",
    "tanh": "tanh({value} * 0.5)",
    "sum": "{value} + {other}",
    "mean": "{value} * sigmoid(mean({value}, axis = 1, keepdims = true))",
}
"""What a step computes from the value before it, by the step's name: `w` has a matrix of weights,
`f` a row of factors.
"""
