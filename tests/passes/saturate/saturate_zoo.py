"""The graphs that figures of saturation are stated for: of every kind, and small but for training.

In: nothing. Out: `ZOO` by name, and `SMALL`, those of it that take a few dozen kernels.
"""

from collections.abc import Callable

from xdsl.ir import SSAValue

from benchmarks.graphs import egraph_graphs
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from tests.passes.saturate.saturate_programs import build_graph, f32, random_graph

TOKENS, WIDTH, HIDDEN, HEADS = 64, 128, 256, 4


def _mlp() -> GraphOp:
    def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
        for weight in weights:
            x = b.gelu(b.linear(x, weight))
        return b.softmax(x)

    return build_graph(body, f32(TOKENS, WIDTH), *[f32(WIDTH, WIDTH)] * 4)


def _attention(b: Emitter, x: SSAValue, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
    shape = [TOKENS, HEADS, WIDTH // HEADS]
    a, c, d = (b.transpose(b.reshape(b.linear(x, w), shape), [1, 0, 2]) for w in (q, k, v))
    scores = b.mul(b.matmul(a, c, transpose_b=True), (WIDTH // HEADS) ** -0.5)
    mixed = b.matmul(b.softmax(scores), d)
    return b.reshape(b.transpose(mixed, [1, 0, 2]), [TOKENS, WIDTH])


SQUARE, UP, DOWN = f32(WIDTH, WIDTH), f32(HIDDEN, WIDTH), f32(WIDTH, HIDDEN)


def _decoder() -> GraphOp:
    def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
        for first in range(0, len(weights), 7):
            q, k, v, o, gate, up, down = weights[first : first + 7]
            x = b.add(x, b.linear(_attention(b, b.rms_norm(x), q, k, v), o))
            h = b.rms_norm(x)
            x = b.add(x, b.linear(b.mul(b.silu(b.linear(h, gate)), b.linear(h, up)), down))
        return x

    return build_graph(body, f32(TOKENS, WIDTH), *[*[SQUARE] * 4, UP, UP, DOWN] * 2)


def _bert() -> GraphOp:
    def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
        q, k, v, o, up, down, scale, shift = weights
        x = b.layer_norm(b.add(x, b.linear(_attention(b, x, q, k, v), o)), scale, shift)
        h = b.linear(b.gelu(b.linear(x, up)), down)
        return b.layer_norm(b.add(x, h), scale, shift)

    return build_graph(body, f32(TOKENS, WIDTH), *[SQUARE] * 4, UP, DOWN, f32(WIDTH), f32(WIDTH))


def _gated() -> GraphOp:
    def body(b: Emitter, x: SSAValue, gate: SSAValue, up: SSAValue, down: SSAValue) -> SSAValue:
        return b.linear(b.mul(b.silu(b.linear(x, gate)), b.linear(x, up)), down)

    return build_graph(body, f32(TOKENS, WIDTH), UP, UP, DOWN)


def _norms() -> GraphOp:
    def body(b: Emitter, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        for _ in range(4):
            x = b.add(b.layer_norm(x), b.rms_norm(b.add(x, y)))
        return [x, b.log_softmax(x)]

    return build_graph(body, f32(TOKENS, WIDTH), f32(TOKENS, WIDTH))


SMALL: dict[str, Callable[[], GraphOp]] = {
    "mlp": _mlp,
    "decoder": _decoder,
    "bert": _bert,
    "gated": _gated,
    "norms": _norms,
    **{f"random {seed}": lambda seed=seed: random_graph(seed, 30) for seed in range(40, 46)},
}

ZOO = {**SMALL, "decoder training": lambda: egraph_graphs.training_graph(2)}
