"""Activations and norms in the spellings of exporters cost what the composites cost: one kernel."""

from collections.abc import Callable

import pytest
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.passes.saturate import saturate_graph
from mgn.passes.simplify import simplify_graph
from tests.passes.saturate.saturate_programs import CPU, build_graph, check_same, f32, kernels_of

ROWS, WIDTH, EPS = 64, 256, 1e-5
V = SSAValue
Spelling = Callable[[Emitter, V, V, V], V]
"""From x, a scale and a shift, both of which some ignore."""


def mean(b: Emitter, x: V) -> V:
    return b.mean(x, axis=-1, keepdims=True)


def total(b: Emitter, x: V) -> V:
    return b.sum(x, axis=-1, keepdims=True)


def largest(b: Emitter, x: V) -> V:
    return b.max_reduce(x, axis=-1, keepdims=True)


def put_back(b: Emitter, x: V) -> V:
    """The axis that a reduction dropped, as unsqueeze writes it."""
    return b.reshape(x, [ROWS, 1])


def powers(b: Emitter, x: V) -> V:
    return b.exp(b.sub(x, largest(b, x)))


def gelu(b: Emitter, x: V, inner: V) -> V:
    """x Φ(x), of erf's argument."""
    return b.mul(b.mul(0.5, x), b.add(1.0, b.erf(inner)))


def tanh_gelu(b: Emitter, x: V, inner: V) -> V:
    return b.mul(b.mul(0.5, x), b.add(1.0, b.tanh(inner)))


def affine(b: Emitter, x: V, w: V, c: V) -> V:
    return b.add(b.mul(x, w), c)


def norm_of(b: Emitter, x: V, centre: V, variance: V, w: V, c: V) -> V:
    return affine(b, b.mul(b.sub(x, centre), b.rsqrt(b.add(variance, EPS))), w, c)


def _onnx_layer_norm(b: Emitter, x: V, w: V, c: V) -> V:
    d = b.sub(x, mean(b, x))
    return affine(b, b.div(d, b.sqrt(b.add(mean(b, b.pow(d, 2.0)), EPS))), w, c)


def _layer_norm_by_sums(b: Emitter, x: V, w: V, c: V) -> V:
    d = b.sub(x, b.mul(total(b, x), 1 / WIDTH))
    root = b.pow(b.add(b.div(total(b, b.mul(d, d)), float(WIDTH)), EPS), 0.5)
    return affine(b, b.div(d, root), w, c)


def _layer_norm_of_squares(b: Emitter, x: V, w: V, c: V) -> V:
    m = mean(b, x)
    return norm_of(b, x, m, b.sub(mean(b, b.pow(x, 2.0)), b.pow(m, 2.0)), w, c)


def _layer_norm_scaled_first(b: Emitter, x: V, w: V, c: V) -> V:
    m = put_back(b, b.mean(x, axis=-1))
    s = b.mul(b.rsqrt(b.add(b.var(x, axis=-1, keepdims=True), EPS)), w)
    return b.add(b.mul(x, s), b.sub(c, b.mul(m, s)))


def square_root(b: Emitter, x: V) -> V:
    return b.sqrt(b.add(mean(b, b.pow(x, 2.0)), EPS))


SPELLINGS: dict[str, tuple[Spelling, dict[str, Spelling]]] = {
    "gelu": (
        lambda b, x, w, c: b.gelu(x),
        {
            "quotient": lambda b, x, w, c: gelu(b, x, b.div(x, 2**0.5)),
            "product": lambda b, x, w, c: gelu(b, x, b.mul(x, 0.5**0.5)),
            "half outside": lambda b, x, w, c: b.mul(
                b.mul(x, b.add(b.erf(b.div(x, 2**0.5)), 1.0)), 0.5
            ),
            "x outside": lambda b, x, w, c: b.mul(
                x, b.mul(0.5, b.add(1.0, b.erf(b.mul(x, 0.5**0.5))))
            ),
        },
    ),
    "gelu by tanh": (
        lambda b, x, w, c: b.gelu(x, approx="tanh"),
        {
            "power": lambda b, x, w, c: tanh_gelu(
                b, x, b.mul(0.7978845608028654, b.add(x, b.mul(0.044715, b.pow(x, 3.0))))
            ),
            "one and a square": lambda b, x, w, c: tanh_gelu(
                b,
                x,
                b.mul(b.mul(x, 0.7978845608028654), b.add(1.0, b.mul(b.mul(0.044715, x), x))),
            ),
        },
    ),
    "silu": (
        lambda b, x, w, c: b.silu(x),
        {
            "product": lambda b, x, w, c: b.mul(x, b.sigmoid(x)),
            "quotient": lambda b, x, w, c: b.div(x, b.add(1.0, b.exp(b.neg(x)))),
            "reciprocal": lambda b, x, w, c: b.mul(
                x, b.div(1.0, b.add(b.exp(b.mul(x, -1.0)), 1.0))
            ),
        },
    ),
    "softmax": (
        lambda b, x, w, c: b.softmax(x),
        {
            "parts": lambda b, x, w, c: b.div(powers(b, x), total(b, powers(b, x))),
            "dropped axes": lambda b, x, w, c: b.div(
                powers(b, x), put_back(b, b.sum(powers(b, x), axis=-1))
            ),
            "reciprocal": lambda b, x, w, c: b.mul(powers(b, x), b.recip(total(b, powers(b, x)))),
            "log_softmax": lambda b, x, w, c: b.exp(b.log_softmax(x)),
            "logsumexp": lambda b, x, w, c: b.exp(b.sub(x, b.logsumexp(x, axis=-1, keepdims=True))),
        },
    ),
    "log_softmax": (
        lambda b, x, w, c: b.log_softmax(x),
        {
            "logarithm": lambda b, x, w, c: b.log(b.softmax(x)),
            "logsumexp": lambda b, x, w, c: b.sub(x, b.logsumexp(x, axis=-1, keepdims=True)),
            "one subtraction": lambda b, x, w, c: b.sub(
                x, b.add(largest(b, x), b.log(total(b, powers(b, x))))
            ),
        },
    ),
    "layer_norm": (
        lambda b, x, w, c: b.layer_norm(x, w, c),
        {
            "quotient": _onnx_layer_norm,
            "var": lambda b, x, w, c: norm_of(
                b, x, mean(b, x), b.var(x, axis=-1, keepdims=True), w, c
            ),
            "mean of squares": _layer_norm_of_squares,
            "scaled first": _layer_norm_scaled_first,
            "sums and powers": _layer_norm_by_sums,
        },
    ),
    "rms_norm": (
        lambda b, x, w, c: b.rms_norm(x, w),
        {
            "quotient": lambda b, x, w, c: b.mul(b.div(x, square_root(b, x)), w),
            "reciprocal": lambda b, x, w, c: b.mul(w, b.mul(x, b.div(1.0, square_root(b, x)))),
            "power": lambda b, x, w, c: b.mul(
                w, b.mul(x, b.pow(b.add(mean(b, b.mul(x, x)), EPS), -0.5))
            ),
            "scales first": lambda b, x, w, c: b.mul(
                x, b.mul(b.rsqrt(b.add(mean(b, b.pow(x, 2.0)), EPS)), w)
            ),
        },
    ),
}
CASES = [
    pytest.param(whole, parts, id=f"{name}: {spelling}")
    for name, (whole, spellings) in SPELLINGS.items()
    for spelling, parts in spellings.items()
]


@pytest.mark.parametrize(("whole", "parts"), CASES)
def test_a_spelling_is_one_kernel_at_the_price_of_the_composite(
    whole: Spelling, parts: Spelling
) -> None:
    types = f32(ROWS, WIDTH), f32(WIDTH), f32(WIDTH)
    graph = build_graph(parts, *types)
    before = graph.clone()
    simplify_graph(graph)
    report = saturate_graph(graph, CPU)
    check_same(before, graph)
    assert len(kernels_of(graph)) == 1
    wanted = saturate_graph(build_graph(whole, *types), CPU)
    assert report.cost_after <= wanted.cost_after * 1.005
