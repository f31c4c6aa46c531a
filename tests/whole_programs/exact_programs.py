"""Programs whose fused kernels could compute in another order than one kernel an operation does.

Each gives a reduction or a product a neighbour that changes what a template sees: a wider element
type, an expensive operation, a movement of elements, a second reduction of the same rows.
"""

import random

_SHAPES = "x: f32[300, 577], y: f32[300, 577], w: f32[577, 96], n: i64[300, 577], v: f32[577]"

BODIES: dict[str, str] = {
    "sum of wide integers": "sum(cast(n, f32), axis = 1)",
    "sum of double precision": "sum(cast(sqrt(abs(cast(x, f64))), f32), axis = 1)",
    "sum of an expensive operation": "sum(exp(tanh(x)), axis = 1)",
    "sum of columns of an expensive operation": "sum(exp(tanh(x)), axis = 0)",
    "sum of a transpose": "sum(transpose(x, [1, 0]), axis = 1)",
    "sum of a product of a transpose": "sum(transpose(x, [1, 0]) * transpose(y, [1, 0]), axis = 0)",
    "sum of everything": "sum(x * y + 1.0)",
    "sum of a slice": "sum(x[3:290, 5:500] * 2.0, axis = 1)",
    "softmax": "softmax(x * 0.3 + y, axis = 1)",
    "softmax of columns": "softmax(x - y, axis = 0)",
    "layer_norm": "layer_norm(x + y)",
    "rms_norm of a gelu": "rms_norm(gelu(x) * y)",
    "two statistics of the same rows": "sum(x, axis = 1) + max_reduce(x * y, axis = 1)",
    "mean and its distances": "sum(abs(x - mean(x, axis = 1, keepdims = true)), axis = 1)",
    "product of an expensive operation": "exp(tanh(x)) @ w",
    "product of wide integers": "cast(n, f32) @ w",
    "product of a sum with its epilogue": "gelu((x + y) @ w) * 0.5",
    "product of a transpose": "transpose(x, [1, 0]) @ exp(y)",
    "product with a scaled operand": "(x * 0.125) @ (w * 3.0)",
    "matrix times vector": "gelu(x @ (v * 2.0))",
    "row of a product": "tanh(x[0:1, :]) @ w",
    "product in half precision": "cast(cast(x, f16) @ cast(w, f16), f32) + 1.0",
    "running sum of an expensive operation": "cumsum(exp(x * 0.01), axis = 1)",
    "cross-entropy of a product": "log_softmax((x @ w) * 0.1, axis = 1)",
}

LONG = "graph g(x: f32[1500007], y: f32[3, 400009]) { return %s }"

LONG_BODIES: dict[str, str] = {
    "long sum": "a = sum(exp(x * 0.001) + 1.0)",
    "long rows": "a = softmax(y * 0.5, axis = 1)",
    "long columns": "a = sum(transpose(y, [1, 0]) * 0.5, axis = 0)",
    "long statistics": "a = layer_norm(tanh(y))",
}

_NORMS = (
    "softmax({x}, axis = {axis})",
    "log_softmax({x}, axis = {axis})",
    "exp({x} - logsumexp({x}, axis = {axis}, keepdims = true))",
    "layer_norm({x})",
    "layer_norm({x}, w, v)",
    "rms_norm({x})",
    "rms_norm({x}, w)",
    "group_norm({x}, g, h, groups = 2)",
    "batch_norm({x}, g, h, g, abs(h))",
    "({x} - mean({x}, axis = {axis}, keepdims = true))"
    " / sqrt(var({x}, axis = {axis}, keepdims = true) + 0.01)",
    "{x} * (1.0 / sqrt(mean({x} ** 2.0, axis = {axis}, keepdims = true) + 0.01)) * w",
)
_BETWEEN = (
    "{x} + y",
    "gelu({x}) * y",
    "silu({x}) * w + v",
    "cast(tanh(cast({x}, f64)) * 1.5, {element})",
    "{x} * transpose(z, [0, 2, 1])",
)


def random_norms(seed: int) -> str:
    """A program of norms after one another, of one tensor, along axes of all kinds."""
    rng = random.Random(seed)
    element = rng.choice(["f32", "f32", "f16", "bf16", "f64"])
    shape = rng.choice([(3, 4, 67), (5, 6, 16), (2, 8, 300), (33, 2, 5)])
    sizes = ", ".join(map(str, shape))
    body = ""
    for _ in range(rng.randint(2, 4)):
        for text in (rng.choice(_BETWEEN), rng.choice(_NORMS)):
            body += f"x = {text.format(x='x', axis=rng.randrange(3), element=element)}; "
    vectors = f"w: {element}[{shape[2]}], v: {element}[{shape[2]}]"
    channels = f"g: {element}[{shape[1]}], h: {element}[{shape[1]}]"
    turned = f"z: {element}[{shape[0]}, {shape[2]}, {shape[1]}]"
    inputs = f"x: {element}[{sizes}], y: {element}[{sizes}], {turned}, {vectors}, {channels}"
    return f"graph g({inputs}) {{ {body}return x }}"


PROGRAMS: dict[str, str] = {
    **{name: f"graph g({_SHAPES}) {{ return a = {body} }}" for name, body in BODIES.items()},
    **{name: LONG % body for name, body in LONG_BODIES.items()},
}
"""Programs by what is special of them."""
