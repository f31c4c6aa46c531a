"""One table of cases: for each operation, arguments and an independent reference written in NumPy.

In: a source of random arrays in the float type under test. Out: arguments, and the reference's
value in f64. Core and composite operations alike; `test_operations.py` fails by name for an
operation without a case.
"""

import math
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np

from tests.dialects.case import Array, Source, case
from tests.dialects.case_references import (
    attention_gradient_reference,
    attention_lse_reference,
    attention_parts_reference,
    attention_reference,
    bias_mask,
    categorical_reference,
    cross_entropy_reference,
    group_norm_reference,
    layer_norm_reference,
    normal_reference,
    philox_reference,
    rope_reference,
    take_rows,
    trimmed,
    uniform_reference,
)
from tests.dialects.order_cases import ORDER, SCANS, WRITTEN
from tests.dialects.recurrent_cases import RECURRENT
from tests.dialects.spatial_cases import SPATIAL


def _one(*shape: int, **bounds: float) -> Callable[[Source], tuple[Any, ...]]:
    return lambda s: (s.f(*shape, **bounds),)


def _two(*shapes: tuple[int, ...]) -> Callable[[Source], tuple[Any, ...]]:
    return lambda s: tuple(s.f(*shape) for shape in shapes)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _sigmoid(x: Array) -> Array:
    return np.exp(x) / (1 + np.exp(x))


def _gelu(x: Array, approx: str = "none") -> Array:
    if approx == "none":
        return x * (1 + _erf(x / np.sqrt(2))) / 2
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _tf32(x: Array) -> Array:
    """11 significant digits; no number drawn at random lies in the middle of two."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 2**11), exponent - 11)


def _softmax(x: Array, axis: int = -1) -> Array:
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def _axes(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


def _mean_of(rows: Array, reduction: str) -> Any:
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](rows)


X = _one(3, 4)
POSITIVE = _one(3, 4, low=0.25, high=3.0)
PAIR = _two((2, 3, 4), (3, 1))
ROWS = _one(2, 3, 5)

UNARY = (
    case("neg", X, lambda x: -x),
    case("neg", lambda s: (s.i(5),), lambda x: -x),
    case("abs", X, lambda x: np.where(x < 0, -x, x)),
    case("sign", X, lambda x: np.where(x < 0, -1.0, 1.0)),
    case("exp", X, lambda x: math.e**x),
    case("expm1", X, lambda x: math.e**x - 1),
    case("log", POSITIVE, lambda x: np.log2(x) * math.log(2)),
    case("log1p", POSITIVE, lambda x: np.log(1 + x)),
    case("sqrt", POSITIVE, lambda x: x**0.5),
    case("rsqrt", POSITIVE, lambda x: x**-0.5),
    case("recip", POSITIVE, lambda x: x**-1),
    case("sin", X, lambda x: np.exp(1j * x).imag),
    case("cos", X, lambda x: np.exp(1j * x).real),
    case("tan", _one(3, low=-1, high=1), lambda x: np.sin(x) / np.cos(x)),
    case("tanh", X, lambda x: 2 * _sigmoid(2 * x) - 1),
    case("erf", X, _erf),
    case("floor", X, lambda x: np.array([[math.floor(v) for v in row] for row in x])),
    case("ceil", X, lambda x: np.array([[math.ceil(v) for v in row] for row in x])),
    case("round", _one(9, low=-20, high=20), lambda x: np.array([round(v) for v in x])),
    case("round_tf32", X, _tf32),
    case("logical_not", lambda s: (s.b(7),), lambda x: x == 0),
    case("identity", X, lambda x: x),
    case("stop_gradient", X, lambda x: x),
    case("isnan", lambda s: (np.array([1, np.nan, np.inf], s.dtype),), lambda x: x != x),
    case("cast", lambda s: (s.f(9), "i32"), lambda x, T: np.trunc(x)),
    case("relu", X, lambda x: x * (x > 0)),
    case("leaky_relu", X, lambda x, slope: x * np.where(x > 0, 1, slope), slope=0.2),
    case("elu", X, lambda x, alpha: np.where(x > 0, x, alpha * (np.exp(x) - 1)), alpha=1.5),
    case("softplus", X, lambda x: np.log(1 + np.exp(x))),
    case("sigmoid", X, _sigmoid),
    case("silu", X, lambda x: x * _sigmoid(x)),
    case("gelu", X, _gelu),
    case("gelu", X, _gelu, approx="tanh"),
    case("hard_sigmoid", _one(9, low=-5, high=5), lambda x: np.clip(x + 3, 0, 6) / 6),
    case("hard_swish", _one(9, low=-5, high=5), lambda x: x * np.clip(x + 3, 0, 6) / 6),
    case("clamp", X, lambda x, min, max: np.clip(x, min, max), min=-0.5, max=1.0),
    case("clamp", X, lambda x, min: np.clip(x, min, None), min=0.5),
    case("clamp", lambda s: (s.i(9),), lambda x, max: np.minimum(x, max), max=3),
)

BINARY = (
    case("add", PAIR, lambda a, b: a + b),
    case("sub", PAIR, lambda a, b: a - b),
    case("mul", PAIR, lambda a, b: a * b),
    case("div", PAIR, lambda a, b: a * (1 / b)),
    case(
        "div",
        lambda s: (s.i(50), s.i(50, low=1)),
        lambda a, b: np.trunc(a / b),
    ),
    case("pow", lambda s: (*POSITIVE(s), s.f(3, 4)), lambda a, b: np.exp(b * np.log(a))),
    case("mod", lambda s: (s.f(9), s.f(9, low=0.5)), lambda a, b: a - b * np.floor(a / b)),
    case("mod", lambda s: (s.i(50), s.i(50, low=-4, high=0)), lambda a, b: a - b * np.floor(a / b)),
    case("max", PAIR, lambda a, b: np.where(a > b, a, b)),
    case("min", PAIR, lambda a, b: np.where(a < b, a, b)),
    case("logical_and", lambda s: (s.b(9), s.b(9)), lambda a, b: a & b),
    case("logical_or", lambda s: (s.b(9), s.b(9)), lambda a, b: a | b),
    case("eq", lambda s: (s.i(50), s.i(50)), lambda a, b: ~(a != b)),
    case("ne", lambda s: (s.i(50), s.i(50)), lambda a, b: a != b),
    case("lt", PAIR, lambda a, b: a - b < 0),
    case("le", PAIR, lambda a, b: a - b <= 0),
    case("gt", PAIR, lambda a, b: a - b > 0),
    case("ge", PAIR, lambda a, b: a - b >= 0),
    case(
        "where",
        lambda s: (s.b(4), s.f(3, 1), s.f(3, 4)),
        lambda c, a, b: c * a + (1 - c) * b,
    ),
    case(
        "pick",
        lambda s: (s.b(3, 1), s.f(3, 4), s.f(3, 4)),
        lambda c, a, b: c * a + (1 - c) * b,
    ),
    case("swiglu", PAIR, lambda gate, up: gate * _sigmoid(gate) * up),
    case("geglu", PAIR, lambda gate, up: _gelu(gate) * up),
)

REDUCTIONS = (
    *(
        case(
            name, ROWS, lambda x, axis=None, keepdims=False, f=f: f(x, _axes(axis), keepdims), **how
        )
        for name, f in {
            "sum": lambda x, axis, keep: np.add.reduce(x, axis, keepdims=keep),
            "mean": lambda x, axis, keep: np.mean(x, axis, keepdims=keep),
            "prod": lambda x, axis, keep: np.multiply.reduce(x, axis, keepdims=keep),
            "max_reduce": lambda x, axis, keep: np.max(x, axis, keepdims=keep),
            "min_reduce": lambda x, axis, keep: np.min(x, axis, keepdims=keep),
            "var": lambda x, axis, keep: np.var(x, axis, keepdims=keep),
            "logsumexp": lambda x, axis, keep: np.log(np.sum(np.exp(x), axis, keepdims=keep)),
        }.items()
        for how in ({}, {"axis": -2}, {"axis": [0, -1], "keepdims": True})
    ),
    case("argmax", ROWS, lambda x: np.argmax(x)),
    case("argmax", ROWS, lambda x, axis: np.argmax(x, axis), axis=1),
    case("argmax", lambda s: (s.i(4, 9),), lambda x, axis: np.argmax(x, axis), axis=-1),
    case(
        "argmin",
        ROWS,
        lambda x, axis, keepdims: np.argmin(x.reshape(2, 15), 1).reshape(2, 1, 1),
        axis=[1, 2],
        keepdims=True,
    ),
    case("running_sum", ROWS, lambda x, axis: np.cumsum(x, axis), axis=1),
    case("cumsum", ROWS, lambda x: np.cumsum(x)),
    case("cumsum", lambda s: (s.f(),), lambda x: np.cumsum(x)),
    case("cumsum", ROWS, lambda x, axis: np.cumsum(x, axis), axis=-2),
    case("cumsum", ROWS, lambda x, axis: np.asarray(x), axis=[]),
    case(
        "cumsum",
        ROWS,
        lambda x, axis, keepdims: np.cumsum(np.cumsum(x, 2), 0),
        axis=[-1, 0],
        keepdims=True,
    ),
)

LINEAR = (
    case("matmul", _two((2, 1, 3, 4), (5, 4, 6)), lambda a, b: np.einsum("...ij,...jk", a, b)),
    case(
        "matmul",
        _two((4, 3), (6, 4)),
        lambda a, b, **_: np.einsum("ji,kj", a, b),
        transpose_a=True,
        transpose_b=True,
    ),
    case("matmul", _two((4,), (4,)), lambda a, b: sum(a * b)),
    case("linear", _two((2, 3, 4), (5, 4), (5,)), lambda x, w, b: x @ w.T + b),
    case("linear", _two((2, 3, 4), (5, 4)), lambda x, w: x @ w.T),
)

EINSUM = tuple(
    case(
        "einsum",
        lambda s, e=equation, shapes=shapes: (e, *(s.f(*shape) for shape in shapes)),
        lambda equation, *arrays: np.einsum(equation, *arrays),
    )
    for equation, *shapes in (
        ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
        ("ij,jk", (3, 4), (4, 5)),
        ("ij,jk->ki", (3, 4), (4, 5)),
        ("ij->ji", (3, 4)),
        ("ij->", (3, 4)),
        ("ii->i", (4, 4)),
        ("ii", (4, 4)),
        ("iji->j", (3, 5, 3)),
        ("iii->i", (3, 3, 3)),
        ("i,j->ij", (3,), (4,)),
        ("i,i->", (3,), (3,)),
        ("i,->i", (3,), ()),
        ("...ij,...jk->...ik", (2, 3, 4), (5, 2, 4, 6)),
        ("...ij,...jk->...ik", (1, 3, 4), (5, 4, 6)),
        ("...i->...", (2, 3, 4)),
        ("i...->...i", (2, 3, 4)),
        ("ba", (2, 3)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
        ("ij,ij,ij->j", (2, 3), (2, 3), (2, 3)),
        ("abc,cd->abd", (2, 3, 4), (4, 5)),
        ("bij,bj->bi", (2, 3, 4), (2, 4)),
        ("ij,kl->j", (2, 3), (4, 5)),
        ("abcd,abce->dace", (2, 3, 4, 5), (2, 3, 4, 6)),
        ("ij,ij->ij", (1, 3), (4, 3)),
        ("ij,jk->ik", (3, 1), (4, 5)),
        ("ab,cb->ca", (3, 0), (2, 0)),
    )
)

NORMS = (
    case("softmax", ROWS, _softmax),
    case("softmax", ROWS, _softmax, axis=0),
    case("log_softmax", ROWS, lambda x, axis: np.log(_softmax(x, axis)), axis=1),
    case("layer_norm", _two((2, 3, 5), (5,), (5,)), layer_norm_reference, eps=1e-3),
    case("layer_norm", _two((2, 3, 5), (3, 5), (3, 5)), layer_norm_reference),
    case("layer_norm", ROWS, layer_norm_reference),
    case(
        "rms_norm",
        _two((2, 3, 5), (5,)),
        lambda x, w, eps: x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w,
        eps=1e-3,
    ),
    case(
        "instance_norm",
        _two((2, 6, 3, 2), (6,), (6,)),
        lambda x, w, b: group_norm_reference(x, w, b, groups=6),
    ),
    case("group_norm", _two((2, 6, 3, 2), (6,), (6,)), group_norm_reference, groups=3),
    case(
        "batch_norm",
        lambda s: (s.f(2, 3, 4), s.f(3), s.f(3), s.f(3), s.f(3, low=0.5)),
        lambda x, w, b, mean, var, eps: (
            (x - mean[:, None]) / np.sqrt(var[:, None] + eps) * w[:, None] + b[:, None]
        ),
        eps=1e-3,
    ),
)

ATTENTION = (
    *(
        case("attention", _two((2, s, 12), (2, t, 6), (2, t, 6)), attention_reference, **how)
        for s, t in ((3, 5), (5, 3))
        for how in (
            {"heads": 4, "kv_heads": 2},
            {"heads": 4, "kv_heads": 2, "causal": True},
            {"heads": 4, "kv_heads": 2, "causal": True, "window": 2, "scale": 0.3},
            {"heads": 2, "kv_heads": 1, "window": 2, "softcap": 1.5},
        )
    ),
    case(
        "attention",
        lambda s: (s.f(2, 3, 12), s.f(2, 5, 6), s.f(2, 5, 6), bias_mask(s, (2, 4, 3, 5))),
        attention_reference,
        heads=4,
        kv_heads=2,
    ),
    case(
        "attention",
        lambda s: (s.f(3, 8), s.f(5, 8), s.f(5, 8), bias_mask(s, (1, 3, 5))),
        attention_reference,
        heads=2,
        causal=True,
    ),
    *(
        case(
            "attention_parts",
            _two((2, 3, 12), (2, 5, 6), (2, 5, 6)),
            attention_parts_reference,
            each=each,
            **how,
        )
        for each, how in (
            (2, {"heads": 4, "kv_heads": 2, "scale": 0.3}),
            (4, {"heads": 2, "kv_heads": 1, "window": 2, "softcap": 1.5}),
        )
    ),
    *(
        case("attention_lse", _two((2, s, 12), (2, t, 6)), attention_lse_reference, **how)
        for s, t, how in (
            (3, 5, {"heads": 4, "kv_heads": 2, "causal": True}),
            (5, 4, {"heads": 2, "kv_heads": 1, "window": 2, "softcap": 1.5}),
        )
    ),
    *(
        case(
            name,
            _two((2, s, 12), (2, t, 6), (2, t, 10), (2, s, 20), *[(2, s, how["heads"])] * 2),
            partial(attention_gradient_reference, of_keys=name == "attention_key_gradient"),
            **how,
        )
        for name in ("attention_query_gradient", "attention_key_gradient")
        for s, t, how in (
            (3, 5, {"heads": 4, "kv_heads": 2, "causal": True, "scale": 0.3}),
            (3, 4, {"heads": 2, "kv_heads": 1, "window": 2, "softcap": 1.5}),
        )
    ),
    case("rope", lambda s: (s.f(2, 3, 12), 6), rope_reference),
    case("rope", lambda s: (s.f(2, 3, 12), 6), rope_reference, theta=100.0, offset=7),
    case("rope", lambda s: (s.f(3, 4), 4), rope_reference, interleaved=True, offset=2),
)

SHAPES = (
    case("reshape", lambda s: (s.f(2, 6), [3, -1]), lambda x, shape: x.ravel().reshape(3, 4)),
    case("transpose", lambda s: (s.f(2, 3, 4), [2, 0, -2]), lambda x, p: np.moveaxis(x, 2, 0)),
    case("broadcast_to", lambda s: (s.f(3, 1), [2, 3, 4]), lambda x, n: x + np.zeros(n)),
    case("expand_dims", lambda s: (s.f(3, 4), [0, -1]), lambda x, axis: x[None, :, :, None]),
    case("squeeze", _one(1, 3, 1), lambda x: x[0, :, 0]),
    case("squeeze", _one(1, 3, 1), lambda x, axis: x[..., 0], axis=-1),
    case("flatten", _one(2, 3, 4), lambda x, start: x.reshape(2, 12), start=1),
    case("slice", lambda s: (s.f(5, 6), [1, -4], [9, 6]), lambda x, *_: x[1:, 2:]),
    case("slice", lambda s: (s.f(7), [1], [7], [3]), lambda x, *_: x[[1, 4]]),
    case("concat", lambda s: ([s.f(2, 3), s.f(2, 1)], 1), lambda xs, axis: np.hstack(xs)),
    case("stack", lambda s: ([s.f(2, 3), s.f(2, 3)], -1), lambda xs, axis: np.dstack(xs)),
    case("split", lambda s: (s.f(2, 5), [1, 4], -1), lambda x, *_: (x[:, :1], x[:, 1:])),
    case("pad", lambda s: (s.f(2, 3), [[0, 1], [2, 0]], 7.0), trimmed),
    case("flip", lambda s: (s.f(3, 4),), lambda x, axis: x[:, ::-1], axis=1),
    case("flip", lambda s: (s.f(3, 4),), lambda x: x[::-1, ::-1]),
    case("tile", lambda s: (s.f(2, 3), [2, 1, 2]), np.tile),
    case("tile", lambda s: (s.f(2, 3), [2]), np.tile),
    case("repeat", lambda s: (s.f(2, 3), 2), np.repeat, axis=1),
    case("repeat", lambda s: (s.f(2, 3), 3), np.repeat),
    case("iota", lambda s: ([2, 3],), lambda shape, axis: [[0] * 3, [1] * 3], axis=0),
    case("full", lambda s: ([2, 3], 1.5), lambda shape, value: [[1.5] * 3] * 2),
    case("one_hot", lambda s: (s.i(4, low=-1, high=4), 3), lambda ids, _: ids[:, None] == range(3)),
    case("tril", lambda s: (s.f(2, 3, 4), 1), np.tril),
    case("triu", lambda s: (s.f(4, 3), -1), np.triu),
)

_KEY = np.array([7, 1, 3], np.uint32)

RANDOM = (
    case(
        "philox",
        lambda s: tuple(np.array([0, 9, 1 << 31], np.uint32) + i for i in range(6)),
        lambda *words, word: [philox_reference(row, word) for row in zip(*words, strict=True)],
        word=2,
    ),
    case("uniform", lambda s: ([2, 3], -1.0, 3.0, "f64", _KEY, 5), uniform_reference),
    case("uniform", lambda s: ([0, 3], 0.0, 1.0, "f64", _KEY, 0), uniform_reference),
    case("normal", lambda s: ([3, 2], 1.0, 2.0, "f64", _KEY, 5), normal_reference),
    case("categorical", lambda s: (s.f(3, 5), _KEY, 1), categorical_reference),
    case("dropout", lambda s: (s.f(3, 5), 0.25), lambda x, p: x),
)

INDEXING = (
    case(
        "gather",
        lambda s: (s.f(3, 4), s.i(2, 2, low=-2, high=6)),
        lambda x, ids, axis: x[:, np.clip(ids, 0, 3)],
        axis=-1,
    ),
    case("embedding", lambda s: (s.i(2, 3, low=-1, high=6), s.f(5, 4)), take_rows),
    case(
        "take_along_axis",
        lambda s: (s.f(3, 4), s.i(2, 4, low=0, high=3)),
        lambda x, ids, axis: np.take_along_axis(x, ids.astype(int), axis),
        axis=0,
    ),
    case(
        "take_along_axis",
        lambda s: (s.f(3, 4), s.i(3, 2, low=-3, high=7, dtype=np.int64)),
        lambda x, ids: np.take_along_axis(x, np.clip(ids, 0, 3).astype(int), 1),
    ),
    case("dynamic_slice", lambda s: (s.f(4, 5), [1, 9], [2, 3]), lambda x, *_: x[1:3, 2:]),
    case("dynamic_slice", lambda s: (s.f(4, 5), [-4, 0], [2, 5]), lambda x, *_: x[:2]),
)

LABELLED = (
    lambda s: (s.f(2, 3, 4), s.i(2, 3, low=0, high=4)),
    lambda s: (s.f(3, 4), s.f(3, 4, low=0, high=1)),
)
PROBABILITIES = lambda s: (s.f(6, low=0.1, high=0.9), s.f(6, low=0, high=1))  # noqa: E731

LOSSES = tuple(
    case(
        name, arguments, lambda x, t, reduction, f=f, **k: _mean_of(f(x, t, **k), reduction), **how
    )
    for reduction in ("mean", "sum", "none")
    for name, arguments, f, how in (
        ("cross_entropy", LABELLED[0], cross_entropy_reference, {}),
        ("cross_entropy", LABELLED[1], cross_entropy_reference, {}),
        (
            "nll",
            LABELLED[0],
            lambda x, t: -np.take_along_axis(x, t[..., None].astype(int), -1)[..., 0],
            {},
        ),
        (
            "bce",
            PROBABILITIES,
            lambda x, t: -(t * np.log(x) + (1 - t) * np.log(1 - x)),
            {},
        ),
        (
            "bce_with_logits",
            PROBABILITIES,
            lambda x, t: -(t * np.log(_sigmoid(x)) + (1 - t) * np.log(1 - _sigmoid(x))),
            {},
        ),
        ("mse", PAIR, lambda x, t: (x - t) ** 2, {}),
        ("l1", PAIR, lambda x, t: np.abs(x - t), {}),
        (
            "huber",
            PAIR,
            lambda x, t, delta: np.where(
                np.abs(x - t) < delta, (x - t) ** 2 / 2, delta * (np.abs(x - t) - delta / 2)
            ),
            {"delta": 0.75},
        ),
    )
    for how in ({**how, "reduction": reduction},)
)

SPATIAL_CASES = tuple(
    case(
        name,
        lambda s, call=call: tuple(s.f(*shape) for shape in call.shapes),
        reference,
        **call.attributes,
    )
    for name, (draw, reference) in SPATIAL.items()
    for call in (draw(Random(f"{name} {number}")) for number in range(3))
)

CASES = (
    *UNARY,
    *BINARY,
    *REDUCTIONS,
    *LINEAR,
    *EINSUM,
    *NORMS,
    *ATTENTION,
    *SHAPES,
    *RANDOM,
    *INDEXING,
    *WRITTEN,
    *ORDER,
    *RECURRENT,
    *SCANS,
    *LOSSES,
    *SPATIAL_CASES,
)
