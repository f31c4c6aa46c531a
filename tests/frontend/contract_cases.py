"""Calls as the language's contract writes them, over tricky values, each with NumPy's answer.

In: nothing. Out: `INPUTS`, arrays by name; `CASES`, groups of expressions of the language with what
they must give. One group is one graph.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.dialects.case_references import attention_reference, layer_norm_reference, rope_reference

INF, NAN = np.inf, np.nan
BIG = 2**53 + 1
LEAST, MOST = -(2**63), 2**63 - 1


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


_random = np.random.default_rng(7)

X = f32(NAN, -0.0, 0.0, 0.5, 1.5, 2.5, -1.5, -2.7, INF, -INF, 100.0, -200.0)
Y = f32(1.0, 0.0, NAN, -0.5, INF, -INF, 1.5, 2.0, INF, 3.0, -7.0, 0.3)
HALF = X.astype(np.float16)
A = i32(7, -7, 7, -7, 5, -(2**31), 0, 2**31 - 1)
B = i32(2, 2, -2, -2, 0, -1, -3, 1)
U = np.array([0, 1, 200, 255], np.uint8)
V = np.array([255, 1, 100, 0], np.uint8)
L = np.array([BIG, -BIG, 3, MOST, LEAST], np.int64)
C = np.array([True, False, True, False, True, True] * 2)
M = f32([3, 1, 3, NAN], [2, 2, -5, 0], [-INF, -INF, -INF, -INF])
K = i32([3, 9, 9, -1], [0, -(2**31), 2**31 - 1, 2**31 - 1])
EMPTY = np.zeros((3, 0), np.float32)
EMPTY_I = np.zeros((2, 0), np.int32)
R = _random.standard_normal((2, 3, 4)).astype(np.float32)
W, D = f32(1.0, -2.0, 0.5, 3.0), f32(0.1, 0.2, 0.3, 0.4)
IDS = i32([2, 0], [-9, 99])
Q = _random.standard_normal((5, 8)).astype(np.float32)
KEYS = _random.standard_normal((6, 4)).astype(np.float32)
MASK = np.where(_random.random((4, 5, 6)) < 0.3, -INF, 0.5).astype(np.float32)
P, T = f32([0.2, 0.9], [0.5, 0.0]), f32([0.0, 1.0], [1.0, 0.0])
N = np.array(3, np.int32)

INPUTS: dict[str, np.ndarray] = {
    "x": X, "y": Y, "h": HALF, "a": A, "b": B, "u": U, "v": V, "l": L, "c": C, "m": M, "k": K,
    "empty": EMPTY, "none_i": EMPTY_I, "r": R, "w": W, "d": D, "ids": IDS, "q": Q, "keys": KEYS,
    "mask": MASK, "p": P, "t": T, "n": N,
}  # fmt: skip

Row = tuple[str, Any]


def _truncated(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    exact = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else 0 for x, y in pairs]
    return np.array(exact, np.int64).astype(a.dtype)


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return np.array([x % y if y else 0 for x, y in pairs], a.dtype)


def _each(x: np.ndarray, function: Callable[[float], float]) -> np.ndarray:
    return np.array([function(float(value)) for value in x.ravel()]).reshape(x.shape)


def _saturated(x: np.ndarray, low: int, high: int) -> np.ndarray:
    def one(value: float) -> int:
        if math.isnan(value):
            return 0
        return low if value <= low else high if value >= high else int(value)

    return np.array([one(value) for value in x.tolist()])


def _sigmoid(x: float) -> float:
    return 0.0 if x < -700 else 1 / (1 + math.exp(-x))


def _gelu(x: float) -> float:
    return x * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _recurred(x: np.ndarray, w: np.ndarray, r: np.ndarray) -> np.ndarray:
    """The last state of a plain recurrence that begins with the first input."""
    state = x[0]
    for step in x:
        state = np.tanh(step @ w.T + state @ r.T)
    return state


with np.errstate(all="ignore"):
    R64, Q64, K64 = R.astype(float), Q.astype(float), KEYS.astype(float)
    LOGS = R64[0] - np.log(np.exp(R64[0]).sum(1, keepdims=True))
    CASES: dict[str, list[Row]] = {
        "one_input": [
            ("neg(x)", -X),
            ("abs(a)", np.abs(A)),
            ("neg(u)", -U),
            ("sign(x)", np.sign(X)),
            ("sign(a)", np.sign(A)),
            ("recip(x)", 1 / X),
            ("rsqrt(x)", 1 / np.sqrt(X)),
            ("sqrt(x)", np.sqrt(X)),
            ("log1p(x)", np.log1p(X)),
            ("expm1(x)", np.expm1(X)),
            ("tanh(x)", np.tanh(X)),
            ("sigmoid(x)", _each(X, lambda v: v if math.isnan(v) else _sigmoid(v))),
            ("floor(x)", np.floor(X)),
            ("ceil(x)", np.ceil(X)),
            ("round(x)", np.rint(X)),
            ("round(h)", np.rint(HALF)),
            ("relu(x)", np.maximum(X, 0)),
            ("relu(a)", np.maximum(A, 0)),
            ("leaky_relu(x, 0.25)", np.where(X > 0, X, X * 0.25)),
            ("elu(x, 2.0)", np.where(X > 0, X, 2 * np.expm1(X))),
            ("softplus(x)", np.maximum(X, 0) + np.log1p(np.exp(-np.abs(X)))),
            ('gelu(r, approx = "tanh")', _each(R, _gelu)),
            ('gelu(r, "none")', _each(R, lambda v: v * 0.5 * (1 + math.erf(v / math.sqrt(2))))),
            ("hard_sigmoid(x)", np.clip(X + 3, 0, 6) / 6),
            ("clamp(x, 0, 1)", np.clip(X, 0, 1)),
            ("clamp(a, max = 3)", np.minimum(A, 3)),
            ("clamp(a, -5)", np.maximum(A, -5)),
            (f"clamp(l, -{BIG}, {BIG})", np.clip(L, -BIG, BIG)),
            ("logical_not(c)", ~C),
            ("isnan(x)", np.isnan(X)),
            ("isnan(h)", np.isnan(HALF)),
            ("stop_gradient(identity(x))", X),
        ],
        "casts": [
            ("cast(x, i32)", _saturated(X, -(2**31), 2**31 - 1)),
            ("cast(x, i8)", _saturated(X, -128, 127)),
            ("cast(x, u8)", _saturated(X, 0, 255)),
            ("cast(x * 1e30, u32)", _saturated(X.astype(float) * 1e30, 0, 2**32 - 1)),
            ("cast(x * 1e30, i64)", _saturated(X.astype(float) * 1e30, LEAST, MOST)),
            ("cast(h, i16)", _saturated(HALF, -(2**15), 2**15 - 1)),
            ("cast(x, bool)", X != 0),
            ("cast(a, i8)", A.astype(np.int8)),
            ("cast(a, u8)", A.astype(np.uint8)),
            ("cast(u, i8)", U.astype(np.int8)),
            ("cast(u, f32)", U.astype(np.float32)),
            ("cast(l, f32)", L.astype(np.float32)),
            ("cast(c, f16)", C.astype(np.float16)),
            ("cast(l, i32)", L.astype(np.int32)),
        ],
        "two_inputs": [
            ("x + y", X + Y),
            ("x / y", X / Y),
            ("a / b", _truncated(A, B)),
            ("mod(a, b)", _remainder(A, B)),
            ("u / v", _truncated(U, V)),
            ("mod(u, v)", _remainder(U, V)),
            ("u - v", U - V),
            ("a * b", A * B),
            ("mod(x, y)", np.mod(X, Y)),
            ("mod(x, 0.7)", np.mod(X, np.float32(0.7))),
            ("x ** y", np.power(X, Y)),
            ("x ** 2", X * X),
            ("pow(a, 3)", A**3),
            ("max(x, y)", np.maximum(X, Y)),
            ("min(x, y)", np.minimum(X, Y)),
            ("max(u, v)", np.maximum(U, V)),
            ("x == y", X == Y),
            ("x != x", X != X),
            ("ge(x, y)", X >= Y),
            ("u < v", U < V),
            ("logical_and(c, x > 0.0)", C & (X > 0)),
            ("logical_or(c, lt(x, 0))", C | (X < 0)),
            ("where(c, x, 7)", np.where(C, X, 7)),
            ("where(c, 1, 0)", np.where(C, 1, 0)),
            (f"l - {BIG}", L - BIG),
            ("swiglu(r, r)", R64 * _each(R, _sigmoid) * R64),
            ('geglu(r, 2.0, "tanh")', _each(R, _gelu) * 2),
        ],
        "reductions": [
            ("sum(r)", R64.sum()),
            ("sum(r, [0, -1], true)", R64.sum((0, 2), keepdims=True)),
            ("sum(u)", U.sum(dtype=np.uint8)),
            ("prod(u, axis = none)", U.prod(dtype=np.uint8)),
            ("mean(r, axis = 1)", R64.mean(1)),
            ("max_reduce(m, 1)", M.max(1)),
            ("min_reduce(m, axis = 0, keepdims = true)", M.min(0, keepdims=True)),
            ("max_reduce(k, -1)", K.max(-1)),
            ("argmax(m, 1)", np.argmax(M, 1)),
            ("argmin(m, 0, true)", np.argmin(M, 0)[None]),
            ("argmax(k)", np.argmax(K)),
            ("argmin(k, axis = [0, 1])", np.argmin(K)),
            ("var(r, 2)", R64.var(2)),
            ("var(r, axis = [0, 2], keepdims = true)", R64.var((0, 2), keepdims=True)),
            ("logsumexp(r, axis = -1)", np.log(np.exp(R64).sum(-1))),
            ("logsumexp(m, axis = 1)", f32(NAN, np.log(np.exp(M[1]).sum()), -INF)),
            ("cumsum(r)", R64.cumsum()),
            ("cumsum(r, 1)", R64.cumsum(1)),
            ("cumsum(r, axis = [0, 2], keepdims = true)", R64.cumsum(0).cumsum(2)),
            ("cumsum(u, -1)", U.cumsum(dtype=np.uint8)),
        ],
        "empty": [
            ("sum(empty, 1)", np.zeros(3)),
            ("prod(empty, 1)", np.ones(3)),
            ("mean(empty, 1)", np.full(3, NAN)),
            ("var(empty, 1)", np.full(3, NAN)),
            ("max_reduce(empty, 1)", np.full(3, -INF)),
            ("min_reduce(empty, 1, true)", np.full((3, 1), INF)),
            ("max_reduce(none_i, 1)", np.full(2, -(2**31))),
            ("logsumexp(empty, 1)", np.full(3, -INF)),
            ("sum(empty)", 0.0),
            ("sum(empty, 0)", np.zeros(0)),
            ("cumsum(empty)", np.zeros(0)),
            ("var(cast(empty, f16), 1)", np.full(3, NAN)),
            ("logsumexp(tanh(empty) / 3, 1)", np.full(3, -INF)),
            ("softmax(empty, -1)", np.zeros((3, 0))),
            ("concat([empty, m], 1)", M),
            ("empty @ empty.T", np.zeros((3, 3))),
        ],
        "normalisation": [
            ("softmax(r, -1)", _softmax(R64, -1)),
            ("softmax(r, 0)", _softmax(R64, 0)),
            ("log_softmax(r, axis = 1)", np.log(_softmax(R64, 1))),
            ("layer_norm(r, w, d, 1e-3)", layer_norm_reference(R64, W, D, 1e-3)),
            ("layer_norm(r)", layer_norm_reference(R64)),
            ("layer_norm(r, b = d)", layer_norm_reference(R64) + D),
            ("instance_norm(r, none, d[0:3])", layer_norm_reference(R64) + D[:3, None]),
            ("rnn(r, keys[0:4], keys[2:6], h0 = r[0])[1]", _recurred(R64, K64[:4], K64[2:])),
            ("rms_norm(r, w, 0.5)", R64 / np.sqrt((R64**2).mean(-1, keepdims=True) + 0.5) * W),
            ("rms_norm(r, eps = 0.5)", R64 / np.sqrt((R64**2).mean(-1, keepdims=True) + 0.5)),
            (
                "attention(q, keys, keys, mask, heads = 4, kv_heads = 2)",
                attention_reference(Q64, K64, K64, MASK, heads=4, kv_heads=2),
            ),
            (
                "attention(q, keys, keys, heads = 2, kv_heads = 1, causal = true, window = 2,"
                " scale = 0.3, softcap = 2.0)",
                attention_reference(
                    Q64, K64, K64, heads=2, kv_heads=1, causal=True, window=2, scale=0.3, softcap=2
                ),
            ),
            ("rope(q, 4, 100.0, offset = n)", rope_reference(Q64, 4, 100.0, 3)),
            ("rope(q, 8, 50.0, 2, true)", rope_reference(Q64, 8, 50.0, 2, True)),
            ("linear(r, q[0:2, 0:4], d[0:2])", R64 @ Q64[:2, :4].T + D[:2]),
            ("matmul(r, r, transpose_b = true)", R64 @ R64.swapaxes(1, 2)),
            ('einsum("bij,bkj->ik", r, r)', np.einsum("bij,bkj->ik", R64, R64)),
        ],
        "shapes": [
            ("reshape(r, [4, -1])", R.reshape(4, -1)),
            ("transpose(r, [2, 0, -2])", R.transpose(2, 0, 1)),
            ("r.T", R.swapaxes(1, 2)),
            ("r[-1, 0:2, :]", R[-1, 0:2, :]),
            ("broadcast_to(w, [2, 4])", np.broadcast_to(W, (2, 4))),
            ("expand_dims(w, [0, -1])", W[None, :, None]),
            ("squeeze(expand_dims(w, 0))", W),
            ("flatten(r, 1)", R.reshape(2, 12)),
            ("slice(r, [0, 1, 0], [2, -1, 9], [1, 1, 3])", R[0:2, 1:-1, 0:9:3]),
            ("concat([m, m], -1)", np.concatenate([M, M], -1)),
            ("stack([w, d], 1)", np.stack([W, D], 1)),
            ("split(q, [2, 3])[1]", Q[2:]),
            ("split(q, [2, 6], axis = 1)[0]", Q[:, :2]),
            ("pad(p, [[0, 1], [2, 0]], 0.0)", np.pad(P, [[0, 1], [2, 0]])),
            (f"pad(l, [[1, 0]], {BIG})", np.pad(L, (1, 0), constant_values=BIG)),
            (f"full([2], {MOST}, i64)", np.full(2, MOST)),
            (f"full([2], {BIG}, T = f32)", np.full(2, np.float32(BIG))),
            ("full([2, 2], true, bool)", np.full((2, 2), True)),
            ("flip(m)", np.flip(M)),
            ("flip(m, [1])", np.flip(M, 1)),
            ("tile(w, [2, 3])", np.tile(W, (2, 3))),
            ("repeat(m, 2, 0)", np.repeat(M, 2, 0)),
            ("repeat(p, 2)", np.repeat(P, 2)),
            ("iota(5)", np.arange(5)),
            ("full(2, 1.5)", np.full(2, 1.5)),
            ("reshape(r, -1)", R64.reshape(-1)),
            ("tile(w, 2)", np.tile(W, 2)),
            ("iota([2, 3])", np.broadcast_to(np.arange(3), (2, 3))),
            ("iota([2, 3], 0, f32)", np.broadcast_to(np.arange(2)[:, None], (2, 3))),
            ("one_hot(ids, 3)", (IDS[..., None] == np.arange(3)).astype(float)),
            ("one_hot(ids, 3, i32)", (IDS[..., None] == np.arange(3)).astype(int)),
            ("tril(m)", np.tril(np.where(np.isnan(M), NAN, M))),
            ("triu(r, 1)", np.triu(R, 1)),
            ("tril(r, k = -1)", np.tril(R, -1)),
        ],
        "indexing": [
            ("embedding(ids, m)", M[np.clip(IDS, 0, 2)]),
            ("gather(r, ids, 1)", np.take(R, IDS, 1, mode="clip")),
            ("gather(m, ids)", np.take(M, IDS, 0, mode="clip")),
            ("take_along_axis(p, ids, 1)", np.take_along_axis(P, np.clip(IDS, 0, 1), 1)),
            ("dynamic_slice(w, n, 2)", W[2:]),
            ("dynamic_slice(q, [n, 7], [2, 4])", Q[3:5, 4:8]),
        ],
        "losses": [
            ("cross_entropy(r[0], ids[0, 0] + iota([3]) - 2)", -LOGS[range(3), [0, 1, 2]].mean()),
            ('cross_entropy(r[0], softmax(r[1]), "none")', -(LOGS * _softmax(R64[1], 1)).sum(1)),
            ('nll(r[0], iota([3]), "sum")', -R64[0][range(3), range(3)].sum()),
            ("bce(p, t)", -np.array([[np.log(0.8), np.log(0.9)], [np.log(0.5), 0]]).mean()),
            ("bce_with_logits(p, t)", (np.logaddexp(0, P) - P * T).mean()),
            ("mse(p, t)", ((P - T) ** 2).mean()),
            ('l1(p, t, reduction = "sum")', np.abs(P - T).sum()),
            ('huber(4 * p, t, "none")', f32([0.32, 2.1], [0.5, 0])),
            ("huber(4 * p, t, delta = 2.0)", f32([0.32, 3.2], [0.5, 0]).mean()),
        ],
    }
