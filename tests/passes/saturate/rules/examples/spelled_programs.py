"""Composites as exporters spell them, in the program's own text.

In: nothing. Out: `SAME` by name: the lines that compute z, and the composite that it is, and
`OVERFLOWING`, where it is so only if approximations may act; `ATTENTION` by name: whole programs
whose one kernel is attention; `FAST`, those of both that are so only if fast rules may act, since a
factor that is moved may overflow, or another composite is less accurate; `DIVIDED` by name: shares
of scores that are divided, and the same of scaled ones, for programs of the same kernels.
"""

ROWS = "x: f32[2, 8, 64], y: f32[2, 8, 64], g: f32[64], b: f32[64]"
CENTRED = "d = x - mean(x, axis = -1, keepdims = true)\n"
SHIFTED = "s = x - expand_dims(max_reduce(x, axis = -1), axis = -1)\n"

CUBIC = "0.7978845608 * (x + 0.044715 * x ** 3.0)"

SAME: dict[str, tuple[str, str]] = {
    # name: the lines that compute z, and the composite
    "sigmoid by tanh": ("z = 0.5 + 0.5 * tanh(x * 0.5)", "sigmoid(x)"),
    "sigmoid of either sign": (
        "z = where(x >= 0.0, 1.0 / (1.0 + exp(-x)), exp(x) / (1.0 + exp(x)))",
        "sigmoid(x)",
    ),
    "silu by tanh": ("z = 0.5 * x * (1.0 + tanh(0.5 * x))", "silu(x)"),
    "silu by tanh, multiplied out": ("h = x / 2.0\nz = h + h * tanh(h)", "silu(x)"),
    "gelu by 1 - erf": ("z = 0.5 * x * (1.0 - erf(-x * 0.70710678))", "gelu(x)"),
    "gelu by 1 - erf, its sign in the scale": (
        "z = x * (1.0 - erf(x * -0.70710678)) / 2.0",
        "gelu(x)",
    ),
    "gelu by sigmoid": (f"z = x * sigmoid(2.0 * {CUBIC})", 'gelu(x, approx = "tanh")'),
    "gelu by sigmoid, its scales in one": (
        "z = x * sigmoid(1.59576912 * x * (1.0 + 0.044715 * x * x))",
        'gelu(x, approx = "tanh")',
    ),
    "gelu by exp": (
        "z = x / (1.0 + exp(-1.59576912 * (x + 0.044715 * x ** 3.0)))",
        'gelu(x, approx = "tanh")',
    ),
    "gelu, its cumulative share first": (
        "z = x * (0.5 * (1.0 + erf(x / 1.4142135623730951)))",
        "gelu(x)",
    ),
    "gelu, all divided by 2": ("z = x * (erf(x / 1.4142135) + 1.0) / 2.0", "gelu(x)"),
    "gelu of halves": ("z = (0.5 + 0.5 * erf(x * 0.70710678)) * x", "gelu(x)"),
    "gelu multiplied out": ("z = 0.5 * (x + x * erf(x * 0.70710678))", "gelu(x)"),
    "gelu by tanh, its share first": (
        "z = x * (0.5 * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x ** 3.0))))",
        'gelu(x, approx = "tanh")',
    ),
    "gelu by tanh, one and a square": (
        "z = 0.5 * x * (1.0 + tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))",
        'gelu(x, approx = "tanh")',
    ),
    "gelu by tanh, a scaled cube": (
        "z = 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))",
        'gelu(x, approx = "tanh")',
    ),
    "gelu by tanh, multiplied out": (
        "z = x * (0.5 + 0.5 * tanh(0.79788456 * x + 0.035677408136300125 * x * x * x))",
        'gelu(x, approx = "tanh")',
    ),
    "swiglu, gate and factor first": ("z = x * y * sigmoid(x)", "swiglu(x, y)"),
    "swiglu, factor and sigmoid first": ("z = x * (y * sigmoid(x))", "swiglu(x, y)"),
    "swiglu of a quotient": ("z = x * y / (1.0 + exp(-x))", "swiglu(x, y)"),
    "geglu, half and factor first": (
        "z = 0.5 * x * y * (1.0 + erf(x * 0.70710678))",
        "geglu(x, y)",
    ),
    "geglu, gate and factor first": (
        f"z = x * y * (0.5 * (1.0 + tanh({CUBIC})))",
        'geglu(x, y, approx = "tanh")',
    ),
    "geglu, the half opposite": (
        "z = (x * 0.5) * (y * (1.0 + erf(x * 0.70710678)))",
        "geglu(x, y)",
    ),
    "geglu, the half with the factor": (
        f"z = x * (1.0 + tanh({CUBIC})) * (0.5 * y)",
        'geglu(x, y, approx = "tanh")',
    ),
    "geglu, the half last": ("z = x * (1.0 + erf(x / 1.4142135)) * y / 2.0", "geglu(x, y)"),
    "geglu, the half around": (
        f"z = 0.5 * (x * (y * (1.0 + tanh({CUBIC}))))",
        'geglu(x, y, approx = "tanh")',
    ),
    "layer norm of rows without their axis": (
        "d = x - expand_dims(mean(x, axis = -1), axis = -1)\n"
        "z = d / expand_dims(sqrt(mean(d * d, axis = -1) + 1e-5), axis = -1) * g + b",
        "layer_norm(x, g, b, eps = 1e-5)",
    ),
    "layer norm with scales of all axes": (
        CENTRED + "v = mean(d * d, axis = -1, keepdims = true)\n"
        "z = d * rsqrt(v + 1e-5) * reshape(g, [1, 1, 64]) + reshape(b, [1, 1, 64])",
        "layer_norm(x, g, b, eps = 1e-5)",
    ),
    "rms norm of rows without their axis": (
        "z = x * expand_dims(rsqrt(mean(x ** 2.0, axis = -1) + 1e-5), axis = -1) * g",
        "rms_norm(x, g, eps = 1e-5)",
    ),
    "layer norm, scaled before its quotient": (
        CENTRED + "z = g * d / sqrt(mean(d ** 2.0, axis = -1, keepdims = true) + 1e-5) + b",
        "layer_norm(x, g, b, eps = 1e-5)",
    ),
    "layer norm of the mean less x": (
        "m = mean(x, axis = -1, keepdims = true)\n"
        "v = mean((m - x) ** 2.0, axis = -1, keepdims = true)\n"
        "z = (x - m) * rsqrt(v + 1e-5) * g + b",
        "layer_norm(x, g, b, eps = 1e-5)",
    ),
    "rms norm, scaled before its root": (
        "z = x * g * rsqrt(mean(x * x, axis = -1, keepdims = true) + 1e-5)",
        "rms_norm(x, g, eps = 1e-5)",
    ),
    "rms norm of absolute values": (
        "z = x / sqrt(mean(abs(x) ** 2.0, axis = -1, keepdims = true) + 1e-5) * g",
        "rms_norm(x, g, eps = 1e-5)",
    ),
    "log_softmax of rows without their axis": (
        SHIFTED + "z = s - expand_dims(log(sum(exp(s), axis = -1)), axis = -1)",
        "log_softmax(x)",
    ),
    "log_softmax of a logarithm and a maximum without their axis": (
        "m = max_reduce(x, axis = -1)\n"
        "t = log(sum(exp(x - expand_dims(m, axis = -1)), axis = -1)) + m\n"
        "z = x - expand_dims(t, axis = -1)",
        "log_softmax(x)",
    ),
    "log_softmax of a logsumexp without its axis": (
        "z = x - expand_dims(logsumexp(x, axis = -1), axis = -1)",
        "log_softmax(x)",
    ),
}

OVERFLOWING: dict[str, tuple[str, str]] = {
    # name: the lines that compute z, and the composite, which does not overflow as they do
    "sigmoid of exponentials": ("z = exp(x) / (1.0 + exp(x))", "sigmoid(x)"),
    "silu of exponentials": ("z = x * exp(x) / (1.0 + exp(x))", "silu(x)"),
    "swiglu of exponentials": ("z = x * y * (exp(x) / (exp(x) + 1.0))", "swiglu(x, y)"),
    "softmax of exponentials": (
        "z = exp(x) / sum(exp(x), axis = -1, keepdims = true)",
        "softmax(x)",
    ),
}

FAST = {
    *("swiglu, gate and factor first", "swiglu, factor and sigmoid first", "swiglu of a quotient"),
    "geglu, gate and factor first",
    *("gelu by sigmoid", "gelu by sigmoid, its scales in one", "gelu by exp"),
    *("gelu by tanh, one and a square", "gelu by tanh, a scaled cube"),
    *("gelu by tanh, multiplied out", "geglu, half and factor first", "geglu, the half opposite"),
    *("geglu, the half with the factor", "geglu, the half last", "geglu, the half around"),
    *("masked by a factor, and far where that is 0", "scores divided by a temperature"),
    *("scores scaled for each head", "rms norm, scaled before its root"),
    "layer norm, scaled before its quotient",
}

SIZES = "const B = 2, S = 128, H = 4, D = 64\n"
HEADS = "f32[B, H, S, D]"
APART = "f32[B, S, H, D]"
GROUPS = "q: f32[B, S, 2, 2, D], k: f32[B, S, 2, D], v: f32[B, S, 2, D]"
SEEN = "tril(full([S, S], 1.0, T = bool))"


def _of(inputs: str, *lines: str) -> str:
    return SIZES + f"graph t({inputs}) {{\n" + "\n".join(lines) + "\nreturn z\n}"


def _three(type: str, more: str = "") -> str:
    return f"q: {type}, k: {type}, v: {type}{more}"


ATTENTION: dict[str, str] = {
    "einsum": _of(
        _three(APART),
        's = einsum("bqhd,bkhd->bhqk", q, k) * 0.125',
        'z = einsum("bhqk,bkhd->bqhd", softmax(s), v)',
    ),
    "einsum, keys first": _of(
        _three(APART),
        's = einsum("bkhd,bqhd->bhqk", k, q / 8.0)',
        'z = einsum("bkhd,bhqk->bqhd", v, softmax(s))',
    ),
    "einsum, groups of heads": _of(
        GROUPS,
        's = einsum("bqhgd,bkhd->bhgqk", q, k) * 0.125',
        f"s = where({SEEN}, s, -inf)",
        'z = einsum("bhgqk,bkhd->bqhgd", softmax(s), v)',
    ),
    "groups of heads broadcast": _of(
        "q: f32[B, S, H * D], k: f32[B, S, H * D / 2], v: f32[B, S, H * D / 2]",
        "qs = reshape(transpose(reshape(q, [B, S, H, D]), [0, 2, 1, 3]), [B, 2, 2, S, D])",
        "ks = reshape(transpose(reshape(k, [B, S, 2, D]), [0, 2, 1, 3]), [B, 2, 1, S, D])",
        "vs = reshape(transpose(reshape(v, [B, S, 2, D]), [0, 2, 1, 3]), [B, 2, 1, S, D])",
        "a = reshape(softmax(qs @ ks.T * 0.125) @ vs, [B, H, S, D])",
        "z = reshape(transpose(a, [0, 2, 1, 3]), [B, S, H * D])",
    ),
    "masked before the scale": _of(
        _three(HEADS), f"z = softmax(where({SEEN}, q @ k.T, -inf) * 0.125) @ v"
    ),
    "masked far before a quotient": _of(
        _three(HEADS), f"z = softmax(where({SEEN}, q @ k.T, -3e38) / 8.0) @ v"
    ),
    "masked by a factor, and far where that is 0": _of(
        _three(HEADS),
        f"b = cast({SEEN}, f32)",
        "z = softmax(q @ k.T * 0.125 * b - 1e10 * (1.0 - b)) @ v",
    ),
    "masked, and a bias": _of(
        _three(HEADS, ", m: f32[B, 1, 1, S]"),
        f"z = softmax(where({SEEN}, q @ k.T * 0.125, -inf) + m) @ v",
    ),
    "masked far by the caller": _of(
        _three(HEADS, ", m: bool[B, 1, 1, S]"),
        "z = softmax(where(m, q @ k.T * 0.125, -3.4028235e38)) @ v",
    ),
    "a bias before the scale, and another": _of(
        _three(HEADS, ", m: f32[B, 1, 1, S], r: f32[H, S, S]"),
        "z = softmax((q @ k.T + r) * 0.125 + m) @ v",
    ),
    "a bias before the scale, and another taken off": _of(
        _three(HEADS, ", m: f32[B, 1, 1, S], r: f32[H, S, S]"),
        "z = softmax((q @ k.T + r) * 0.125 - m) @ v",
    ),
    "a bias before the quotient, taken off": _of(
        _three(HEADS, ", m: f32[B, 1, 1, S]"),
        "z = softmax((q @ k.T - (1.0 - m) * 1e4) / 8.0) @ v",
    ),
    "a bias taken off scores": _of(
        _three(HEADS, ", m: f32[B, 1, 1, S]"), "z = softmax(q @ k.T / 8.0 - m) @ v"
    ),
    "masked far, and a bias": _of(
        _three(HEADS, ", m: f32[B, 1, 1, S]"),
        f"z = softmax(where({SEEN}, q @ k.T / 8.0, -3.4028235e38) + m) @ v",
    ),
    "a bias of distances, masked": _of(
        _three(HEADS, ", r: f32[H, 1, S]"),
        f"z = softmax(where({SEEN}, q @ k.T * 0.125 + r, -3.4028235e38)) @ v",
    ),
    "a bias that is no less than the least number": _of(
        _three(HEADS),
        f"m = where({SEEN}, 0.0, -inf)",
        "z = softmax(max(q @ k.T * 0.125 + m, -3.4028235e38)) @ v",
    ),
    "a mask for each head of merged batches": _of(
        _three(HEADS, ", m: f32[B, 1, S, S]"),
        "qs, ks, vs = reshape(q, [B * H, S, D]), reshape(k, [B * H, S, D]), "
        "reshape(v, [B * H, S, D])",
        "s = reshape(reshape(qs @ ks.T * 0.125, [B, H, S, S]) + m, [B * H, S, S])",
        "z = reshape(softmax(s) @ vs, [B, H, S, D])",
    ),
    "a bias for each head of merged batches": _of(
        _three(HEADS, ", r: f32[B, H, 1, S]"),
        "qs, ks, vs = reshape(q, [B * H, S, D]), reshape(k, [B * H, S, D]), "
        "reshape(v, [B * H, S, D])",
        "s = reshape(reshape(r, [B * H, 1, S]) + qs @ ks.T * 0.125, [B, H, S, S])",
        f"p = softmax(where({SEEN}, s, -3.4028235e38))",
        "z = reshape(reshape(p, [B * H, S, S]) @ vs, [B, H, S, D])",
    ),
    "scores without their largest": _of(
        _three(HEADS),
        "s = q @ k.T * 0.125",
        "z = softmax(s - max_reduce(s, axis = -1, keepdims = true)) @ v",
    ),
    "shares on the right": _of(
        _three(HEADS),
        "o = v.T @ softmax(q @ k.T * 0.125).T",
        "z = reshape(transpose(o, [0, 3, 1, 2]), [B, S, H * D])",
    ),
    "shares of columns": _of(_three(HEADS), "z = (v.T @ softmax(k @ q.T / 8.0, axis = -2)).T"),
    "divided after the product": _of(
        _three(HEADS),
        "s = q @ k.T * 0.125",
        "e = exp(s - max_reduce(s, axis = -1, keepdims = true))",
        "z = e @ v / sum(e, axis = -1, keepdims = true)",
    ),
    "scores divided by a temperature": _of(
        _three(HEADS, ", t: f32[]"), "z = softmax(q @ k.T / t) @ v"
    ),
    "scores scaled for each head": _of(
        _three(HEADS, ", t: f32[H, 1, 1]"), "z = softmax(q @ k.T * t) @ v"
    ),
    "queries and keys divided": _of(
        _three(HEADS), "z = softmax((q / 2.8284271) @ (k / 2.8284271).T) @ v"
    ),
    "scores divided for the layer, too": _of(_three(HEADS), "z = softmax(q @ k.T / 8.0 / 3.0) @ v"),
    "queries of the composite divided": _of(
        _three("f32[B, S, H * D]"), "z = attention(q / 3.0, k, v, heads = H, scale = 1.0)"
    ),
}

PROJECTED = """
const B = 2, S = 16, H = 4, KV = 2, D = 32
fn heads(x, name: str, n: int) {
  param w: f32[H * D, n * D] as "{name}.weight" = normal(std = 0.1)
  param b: f32[n * D] as "{name}.bias" = normal(std = 0.1)
  return transpose(reshape(x @ w + b, [B, S, n, D]), [0, 2, 1, 3])
}
fn shared(x) {
  wide = broadcast_to(reshape(x, [B, KV, 1, S, D]), [B, KV, H / KV, S, D])
  return reshape(wide, [B, H, S, D])
}
graph t(x: f32[B, S, H * D], m: f32[B, 1, 1, S]) {
  q, k, v = heads(x, "q", H), shared(heads(x, "k", KV)), shared(heads(x, "v", KV))
  return z = reshape(transpose(SHARES @ v, [0, 2, 1, 3]), [B, S, H * D])
}
"""
"""Attention over heads of products, without its `SHARES`, in which `SEEN` is a mask."""

SCALED = "softmax(q @ k.T * 0.17677669529663687)"
SCALED_WITH_MASK = "softmax(q @ k.T * 0.17677669529663687 + m)"

DIVIDED: dict[str, tuple[str, str]] = {
    # name: shares with a quotient, and the same with a product
    "scores": ("softmax(q @ k.T / 5.656854249)", SCALED),
    "scores by one value of all axes": (
        "softmax(q @ k.T / sqrt(full([1, 1, S, S], 32.0)))",
        SCALED,
    ),
    "queries": ("softmax((q / 5.656854249) @ k.T)", SCALED),
    "keys": ("softmax(q @ (k / 5.656854249).T)", SCALED),
    "queries and keys": ("softmax((q / 2.3784142) @ (k / 2.3784142).T)", SCALED),
    "scores before a mask": ("softmax(q @ k.T / 5.656854249 + m)", SCALED_WITH_MASK),
    "queries before a mask": ("softmax((q / 5.656854249) @ k.T + m)", SCALED_WITH_MASK),
    "scores after a mask": (
        "softmax(where(SEEN, q @ k.T, -inf) / 5.656854249)",
        "softmax(where(SEEN, q @ k.T, -inf) * 0.17677669529663687)",
    ),
    "scores before a choice": (
        "softmax(where(SEEN, q @ k.T / 5.656854249, -inf))",
        "softmax(where(SEEN, q @ k.T * 0.17677669529663687, -inf))",
    ),
}


def divided(name: str) -> tuple[str, str]:
    """A program of `DIVIDED`, and the one with a product in its place."""
    first, second = (
        PROJECTED.replace("SHARES", shares.replace("SEEN", SEEN)) for shares in DIVIDED[name]
    )
    return first, second


TURNED_HEADS = """
const S = 12, H = 4, KV = 2, D = 16
fn product(x, name: str, n: int) {
  param w: f32[H * D, n * D] as "{name}.weight" = normal(std = 0.1)
  return reshape(x @ w, [1, S, n, D])
}
fn normed(x, name: str) {
  param g: f32[D] as "{name}.norm" = ones()
  return x / sqrt(mean(x * x, axis = -1, keepdims = true) + 1e-6) * g
}
fn rotated(x, c, s) {
  return x * c + concat([-x[..., D / 2:], x[..., :D / 2]], axis = -1) * s
}
fn turned(x) { return transpose(x, [0, 2, 1, 3]) }
fn repeated(x) {
  wide = broadcast_to(reshape(x, [1, KV, 1, S, D]), [1, KV, H / KV, S, D])
  return reshape(wide, [1, H, S, D])
}
fn merged(x, n: int) { return reshape(x, [1, S, n * D]) }
graph t(x: f32[1, S, H * D], c: f32[TABLE], s: f32[TABLE]) {
  q, k, v = product(x, "q", H), product(x, "k", KV), product(x, "v", KV)
  ATTENDED
  param o: f32[H * D, H * D] = normal(std = 0.1)
  return y = z @ o
}
"""
"""A block's attention without its text, for tables of rotations that are known when it runs."""

AS_THEY_LIE = """
  q, k = rotated(normed(q, "q"), c, s), rotated(normed(k, "k"), c, s)
  z = attention(merged(q, H), merged(k, KV), merged(v, KV), heads = H, kv_heads = KV, causal = true)
"""

TURNED_FIRST: dict[str, str] = {
    # name: heads that are turned before or after their norm, rotated, and repeated or not
    "normed, turned, rotated": """
  q, k = rotated(turned(normed(q, "q")), c, s), rotated(turned(normed(k, "k")), c, s)
  q, k = turned(q), turned(k)
  z = attention(merged(q, H), merged(k, KV), merged(v, KV), heads = H, kv_heads = KV, causal = true)
""",
    "normed, turned, rotated, repeated": """
  q, k = rotated(turned(normed(q, "q")), c, s), rotated(turned(normed(k, "k")), c, s)
  q, k, v = turned(q), turned(repeated(k)), turned(repeated(turned(v)))
  z = attention(merged(q, H), merged(k, H), merged(v, H), heads = H, causal = true)
""",
    "turned, normed, rotated, repeated": """
  q, k = rotated(normed(turned(q), "q"), c, s), rotated(normed(turned(k), "k"), c, s)
  q, k, v = turned(q), turned(repeated(k)), turned(repeated(turned(v)))
  z = attention(merged(q, H), merged(k, H), merged(v, H), heads = H, causal = true)
""",
}


def turned_first(name: str) -> tuple[str, str]:
    """A program of `TURNED_FIRST`, and the one that leaves heads as they lie."""
    spelled = TURNED_HEADS.replace("TABLE", "S, D").replace("ATTENDED", TURNED_FIRST[name])
    plain = TURNED_HEADS.replace("TABLE", "S, 1, D").replace("ATTENDED", AS_THEY_LIE)
    return spelled, plain
