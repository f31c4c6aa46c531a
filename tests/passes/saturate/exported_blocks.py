"""Transformer blocks as exporters write them, beside the same blocks of composites, as programs.

In: nothing. Out: `BLOCKS` by name: both texts, which compute the same; and `NORMS`, the last lines
of a `norm` that does.
"""

PARAMETERS = """
const B = 2, S = 32, D = 64, H = 4, KV = 2, HD = 16, FF = 128, EPS = 1e-5

fn project(x, name: str, inner: int, outer: int) {
  param w: f32[outer, inner] as "{name}.weight" = normal(std = 0.1)
  param b: f32[outer] as "{name}.bias" = normal(std = 0.1)
  return linear(x, w, b)
}
fn heads(x, n: int) { return transpose(reshape(x, [B, S, n, HD]), [0, 2, 1, 3]) }
fn joined(x) { return reshape(transpose(x, [0, 2, 1, 3]), [B, S, D]) }
"""

BERT_PARTS = """
fn norm(x, name: str) {
  param g: f32[D] as "{name}.weight" = normal(mean = 1.0, std = 0.1)
  param b: f32[D] as "{name}.bias" = normal(std = 0.1)
  centred = x - expand_dims(mean(x, axis = -1), axis = -1)
  variance = mean(centred ** 2.0, axis = -1, keepdims = true)
  return centred / sqrt(variance + EPS) * g + b
}
fn attend(q, k, v, mask) {
  keys = transpose(reshape(k, [B, S, H, HD]), [0, 2, 3, 1])
  scores = heads(q, H) @ keys / 4.0 + mask
  shifted = exp(scores - max_reduce(scores, axis = -1, keepdims = true))
  shares = shifted / sum(shifted, axis = -1, keepdims = true)
  return joined(shares @ heads(v, H))
}
fn activate(x) { return x * 0.5 * (erf(x / 1.4142135) + 1.0) }
"""

BERT_WHOLE = """
fn norm(x, name: str) {
  param g: f32[D] as "{name}.weight" = normal(mean = 1.0, std = 0.1)
  param b: f32[D] as "{name}.bias" = normal(std = 0.1)
  return layer_norm(x, g, b, eps = EPS)
}
fn attend(q, k, v, mask) { return attention(q, k, v, mask, heads = H) }
fn activate(x) { return x * 0.5 * (erf(x / 1.4142135) + 1.0) }
"""

BERT = """
graph block(x: f32[B, S, D], mask: f32[B, 1, 1, S]) {
  a = attend(project(x, "q", D, D), project(x, "k", D, D), project(x, "v", D, D), mask)
  x = norm(x + project(a, "o", D, D), "n1")
  h = project(activate(project(x, "up", D, FF)), "down", FF, D)
  return y = norm(x + h, "n2")
}
"""

GPT_PARTS = """
fn norm(x, name: str) {
  param g: f32[D] as "{name}.weight" = normal(mean = 1.0, std = 0.1)
  param b: f32[D] as "{name}.bias" = normal(std = 0.1)
  centred = x - mean(x, axis = -1, keepdims = true)
  return g * (centred * (1.0 / sqrt(mean(centred * centred, axis = -1, keepdims = true) + EPS))) + b
}
fn attend(q, k, v) {
  scores = heads(q, H) @ heads(k, H).T * 0.25
  seen = tril(full([1, 1, S, S], 1.0, T = bool))
  return joined(softmax(where(seen, scores, -3.4028234e38)) @ heads(v, H))
}
fn activate(x) { return x * 0.5 * (tanh((x + x ** 3.0 * 0.044715) * 0.7978845608028654) + 1.0) }
"""

GPT_WHOLE = """
fn norm(x, name: str) {
  param g: f32[D] as "{name}.weight" = normal(mean = 1.0, std = 0.1)
  param b: f32[D] as "{name}.bias" = normal(std = 0.1)
  return layer_norm(x, g, b, eps = EPS)
}
fn attend(q, k, v) { return attention(q, k, v, heads = H, causal = true) }
fn activate(x) { return gelu(x, approx = "tanh") }
"""

GPT = """
graph block(x: f32[B, S, D]) {
  h = norm(x, "n1")
  a = attend(project(h, "q", D, D), project(h, "k", D, D), project(h, "v", D, D))
  x = x + project(a, "o", D, D)
  return y = x + project(activate(project(norm(x, "n2"), "up", D, FF)), "down", FF, D)
}
"""

LLAMA_PARTS = """
fn norm(x, name: str) {
  param g: f32[D] as "{name}.weight" = normal(mean = 1.0, std = 0.1)
  return g * (x * rsqrt(mean(x ** 2.0, axis = -1, keepdims = true) + EPS))
}
fn turned(x, cosine, sine) {
  other = concat([-x[:, :, :, 8:16], x[:, :, :, 0:8]], axis = -1)
  return x * cosine + other * sine
}
fn shared(x) {
  wide = broadcast_to(reshape(x, [B, KV, 1, S, HD]), [B, KV, H / KV, S, HD])
  return reshape(wide, [B, H, S, HD])
}
fn attend(q, k, v, cosine, sine) {
  keys = shared(turned(heads(k, KV), cosine, sine))
  scores = turned(heads(q, H), cosine, sine) @ keys.T * 0.25
  scores = where(tril(full([S, S], 1.0, T = bool)), scores, -inf)
  shifted = exp(scores - max_reduce(scores, axis = -1, keepdims = true))
  return joined(shifted / sum(shifted, axis = -1, keepdims = true) @ shared(heads(v, KV)))
}
fn gate(x, y) { return x * (1.0 / (exp(-x) + 1.0)) * y }
"""

TABLES_WHOLE = """
fn turned(x, n: int, cosine, sine) {
  x = heads(x, n)
  other = concat([-x[:, :, :, 8:16], x[:, :, :, 0:8]], axis = -1)
  return reshape(transpose(x * cosine + other * sine, [0, 2, 1, 3]), [B, S, n * HD])
}
fn attend(q, k, v, cosine, sine) {
  q = turned(q, H, cosine, sine)
  k = turned(k, KV, cosine, sine)
  return attention(q, k, v, heads = H, kv_heads = KV, causal = true)
}
"""

LLAMA_WHOLE = """
fn norm(x, name: str) {
  param g: f32[D] as "{name}.weight" = normal(mean = 1.0, std = 0.1)
  return rms_norm(x, g, eps = EPS)
}
fn gate(x, y) { return silu(x) * y }
"""

LLAMA = """
graph block(x: f32[B, S, D], cosine: f32[S, HD], sine: f32[S, HD]) {
  h = norm(x, "n1")
  q = project(h, "q", D, D)
  k = project(h, "k", D, KV * HD)
  v = project(h, "v", D, KV * HD)
  x = x + project(attend(q, k, v, cosine, sine), "o", D, D)
  h = norm(x, "n2")
  return y = x + project(gate(project(h, "gate", D, FF), project(h, "up", D, FF)), "down", FF, D)
}
"""

TABLES = """
fn tables() {
  inverse = 1.0 / 10000.0 ** (cast(iota([HD / 2], axis = 0, T = i32), f32) * 2.0 / 16.0)
  angle = reshape(cast(iota([S], axis = 0, T = i32), f32), [S, 1]) @ reshape(inverse, [1, HD / 2])
  both = concat([angle, angle], axis = -1)
  return cos(both), sin(both)
}
"""

ROPE_WHOLE = """
fn attend(q, k, v, cosine, sine) {
  q = rope(q, head_dim = HD)
  k = rope(k, head_dim = HD)
  return attention(q, k, v, heads = H, kv_heads = KV, causal = true)
}
"""

ROPE = LLAMA.replace(", cosine: f32[S, HD], sine: f32[S, HD]", "").replace(
    'h = norm(x, "n1")', 'cosine, sine = tables()\n  h = norm(x, "n1")'
)

BLOCKS: dict[str, tuple[str, str]] = {
    "bert": (PARAMETERS + BERT_PARTS + BERT, PARAMETERS + BERT_WHOLE + BERT),
    "gpt": (PARAMETERS + GPT_PARTS + GPT, PARAMETERS + GPT_WHOLE + GPT),
    "llama": (PARAMETERS + LLAMA_PARTS + LLAMA, PARAMETERS + LLAMA_WHOLE + TABLES_WHOLE + LLAMA),
    "llama with its own tables": (
        PARAMETERS + LLAMA_PARTS + TABLES + ROPE,
        PARAMETERS + LLAMA_WHOLE + ROPE_WHOLE + TABLES + ROPE,
    ),
}

COMPOSITE = "return layer_norm(x, g, b, eps = EPS)"
CENTRED = "c = x - mean(x, axis = -1, keepdims = true)"
DEVIATION = "sqrt(mean(c * c, axis = -1, keepdims = true) + EPS)"

NORMS = {
    "scales first": f"{CENTRED}\n  return c * (1.0 / {DEVIATION} * g) + b",
    "scales in a quotient": f"{CENTRED}\n  return c * (g / {DEVIATION}) + b",
    "scaled before": f"{CENTRED}\n  return b + g * c / {DEVIATION}",
    "mean in the shift": """m = mean(x, axis = -1, keepdims = true)
  s = rsqrt(var(x, axis = -1, keepdims = true) + EPS) * g
  return x * s + (b - m * s)""",
}
"""Ways to write a layer norm in place of `COMPOSITE`."""
