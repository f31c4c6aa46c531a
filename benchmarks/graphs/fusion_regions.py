"""Regions of programs that fusion turns into fewer kernels, with the shapes to measure them at.

In: nothing. Out: `CELLS`: programs in the language, one for each region, shape and element type.
`T` in a region's text is the element type; its other capital letters are sizes.
"""

import re
from dataclasses import dataclass
from itertools import product

Sizes = dict[str, int]


@dataclass(frozen=True)
class Cell:
    """One region at one shape and element type."""

    region: str
    shape: str
    element: str
    program: str

    @property
    def inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Element type and shape of each input, as the program says."""
        header = self.program.split("{")[0]
        return {
            name: (element, tuple(map(int, sizes.split(","))))
            for name, element, sizes in re.findall(r"(\w+): (\w+)\[([\d, ]+)\]", header)
        }


def _rows(*sizes: tuple[int, int]) -> list[Sizes]:
    return [{"R": rows, "C": columns} for rows, columns in sizes]


def _products(*sizes: tuple[int, int, int]) -> list[Sizes]:
    return [{"M": m, "K": k, "N": n} for m, k, n in sizes]


SMALL, MEDIUM, LARGE = (64, 128), (512, 768), (4096, 1024)
FLAT = _rows(SMALL, MEDIUM, LARGE)
TALL = _rows((16384, 64), (2048, 256))
MATRICES = _products((64, 128, 128), (128, 576, 1536), (512, 512, 512))
TWO_MATRICES = _products((128, 576, 576), (512, 512, 512))
IMAGES = [
    {"N": 2, "C": 64, "H": 32, "W": 32, "G": 32},
    {"N": 1, "C": 320, "H": 64, "W": 64, "G": 32},
    {"N": 4, "C": 512, "H": 14, "W": 14, "G": 32},
    {"N": 2, "C": 128, "H": 7, "W": 7, "G": 8},
]
BATCHED = [{"B": 12, "S": 128, "D": 64}, {"B": 4, "S": 512, "D": 64}]

BOTH = ("f32", "f16")
ONE = ("f32",)

REGIONS: tuple[tuple[str, tuple[str, ...], list[Sizes], str], ...] = (
    ("chain", BOTH, FLAT, "(x: T[R, C], b: T[C]) { return y = tanh(x * 0.5 + b) * sigmoid(x) }"),
    ("diamond", BOTH, FLAT, "(x: T[R, C]) { e = exp(x * 0.1); return y = e / (e + 1.0) + e * e }"),
    (
        "long chain",
        ONE,
        FLAT,
        "(x: T[R, C], y: T[R, C]) { for i in 0..6 { x = tanh(x * 0.9 + y) }; return x }",
    ),
    (
        "two results",
        BOTH,
        FLAT,
        "(x: T[R, C], y: T[R, C]) { s = x + y; return a = relu(s), b = s * 2.0 }",
    ),
    (
        "row and column factors",
        ONE,
        FLAT,
        "(x: T[R, C], s: T[R, 1], b: T[C]) { return y = x * s + b }",
    ),
    ("swiglu", BOTH, FLAT, "(g: T[R, C], u: T[R, C]) { return y = silu(g) * u }"),
    ("casts", ONE, FLAT, "(x: T[R, C]) { return y = cast(cast(x * 2.0, f16) + 1.0, T) }"),
    ("transpose and add", ONE, FLAT, "(x: T[C, R], y: T[R, C]) { return z = relu(x.T) + y }"),
    ("rope", ONE, FLAT, "(x: T[R, C]) { return y = rope(x, head_dim = 64, theta = 10000.0) }"),
    (
        "gather, scale, add",
        ONE,
        FLAT,
        "(ids: i32[R], t: T[5000, C], p: T[R, C]) { return y = embedding(ids, t) * 2.0 + p }",
    ),
    ("sum of squares of rows", BOTH, FLAT, "(x: T[R, C]) { return y = sum(x * x, axis = 1) }"),
    (
        "sum of products of columns",
        ONE,
        FLAT,
        "(x: T[R, C], y: T[R, C]) { return z = sum(x * y, axis = 0) }",
    ),
    ("norm of all", ONE, FLAT, "(x: T[R, C]) { return y = sqrt(sum(x * x)) }"),
    ("variance", ONE, FLAT, "(x: T[R, C]) { return y = var(x, axis = 1) }"),
    ("softmax", BOTH, [*FLAT, *TALL], "(x: T[R, C]) { return y = softmax(x) }"),
    (
        "masked softmax",
        ONE,
        FLAT,
        "(x: T[R, C], m: T[R, C]) { return y = softmax(x * 0.125 + m) }",
    ),
    ("log softmax", ONE, TALL, "(x: T[R, C]) { return y = log_softmax(x) }"),
    ("logsumexp", ONE, TALL, "(x: T[R, C]) { return y = logsumexp(x, axis = 1) }"),
    (
        "residual and layer norm",
        BOTH,
        FLAT,
        "(x: T[R, C], y: T[R, C], w: T[C], b: T[C]) { return z = layer_norm(x + y, w, b) }",
    ),
    (
        "residual kept, rms norm",
        ONE,
        FLAT,
        "(x: T[R, C], y: T[R, C], w: T[C]) { s = x + y; return s, n = rms_norm(s, w) }",
    ),
    (
        "group norm, silu",
        BOTH,
        IMAGES,
        "(x: T[N, C, H, W], w: T[C], b: T[C]) { return y = silu(group_norm(x, w, b, groups = G)) }",
    ),
    (
        "group norm of rows, silu",
        ONE,
        IMAGES,
        "(x: T[N, C, H, W], w: T[C], b: T[C]) {"
        " n = reshape(layer_norm(reshape(x, [N, G, -1])), [N, C, H, W]);"
        " return y = silu(n * reshape(w, [C, 1, 1]) + reshape(b, [C, 1, 1])) }",
    ),
    (
        "cross entropy",
        ONE,
        FLAT,
        "(x: T[R, C], ids: i32[R]) { return y = cross_entropy(x, ids) }",
    ),
    (
        "matmul, bias, gelu",
        ONE,
        MATRICES,
        "(x: T[M, K], w: T[K, N], b: T[N]) { return y = gelu(x @ w + b) }",
    ),
    (
        "A Bᵀ, residual",
        BOTH,
        MATRICES,
        "(x: T[M, K], w: T[N, K], r: T[M, N]) { return y = x @ w.T + r }",
    ),
    (
        "Aᵀ B, scale",
        ONE,
        MATRICES,
        "(x: T[K, M], w: T[K, N]) { return y = (x.T @ w) * 0.5 }",
    ),
    (
        "scaled rows, matmul",
        ONE,
        MATRICES,
        "(x: T[M, K], s: T[M, 1], w: T[K, N]) { return y = (x * s) @ w }",
    ),
    (
        "rms norm, matmul",
        ONE,
        TWO_MATRICES,
        "(x: T[M, K], g: T[K], w: T[N, K]) { return y = rms_norm(x, g) @ w.T }",
    ),
    (
        "gated products",
        ONE,
        TWO_MATRICES,
        "(x: T[M, K], g: T[N, K], u: T[N, K]) { return y = silu(x @ g.T) * (x @ u.T) }",
    ),
    (
        "matmul with two users",
        ONE,
        TWO_MATRICES,
        "(x: T[M, K], w: T[K, N], b: T[N]) { h = x @ w + b; return h, r = relu(h) }",
    ),
    (
        "sum of two products",
        ONE,
        TWO_MATRICES,
        "(x: T[M, K], y: T[M, K], v: T[K, N], w: T[K, N]) { return z = x @ v + y @ w }",
    ),
    (
        "batched scores",
        ONE,
        BATCHED,
        "(q: T[B, S, D], k: T[B, S, D], m: T[S, S]) { return y = (q @ k.T) * 0.125 + m }",
    ),
    (
        "batched scores, softmax",
        ONE,
        BATCHED,
        "(q: T[B, S, D], k: T[B, S, D]) { return y = softmax((q @ k.T) * 0.125) }",
    ),
    (
        "attention",
        ONE,
        BATCHED,
        "(q: T[S, 256], k: T[S, 256], v: T[S, 256])"
        " { return y = attention(q, k, v, heads = 4, causal = true) }",
    ),
    (
        "heads apart, product",
        ONE,
        BATCHED,
        "(x: T[S, 256], k: T[4, 64, S])"
        " { return y = transpose(reshape(x, [S, 4, 64]), [1, 0, 2]) @ k }",
    ),
)


def _program(text: str, sizes: Sizes, element: str) -> str:
    """A region's text with its capital letters filled in; `.T` is the language's own."""
    names = {**{name: str(size) for name, size in sizes.items()}, "T": element}
    return "graph g" + re.sub(r"(?<![\w.])([A-Z])\b", lambda found: names[found[1]], text)


CELLS: tuple[Cell, ...] = tuple(
    Cell(region, " × ".join(map(str, sizes.values())), element, _program(text, sizes, element))
    for region, elements, shapes, text in REGIONS
    for sizes, element in product(shapes, elements)
)
"""All regions at all their shapes and element types."""
