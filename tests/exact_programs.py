"""Programs whose fused kernels could compute in another order than one kernel an operation does.

Each gives a reduction or a product a neighbour that changes what a template sees: a wider element
type, an expensive operation, a movement of elements, a second reduction of the same rows.
"""

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

PROGRAMS: dict[str, str] = {
    **{name: f"graph g({_SHAPES}) {{ return a = {body} }}" for name, body in BODIES.items()},
    **{name: LONG % body for name, body in LONG_BODIES.items()},
}
"""Programs by what is special of them."""
