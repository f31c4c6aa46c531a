"""One call of every operation, in the language, over the inputs that `HEADER` declares.

In: nothing. Out: `EXAMPLES`, expressions by operation name.
"""

HEADER = (
    "x: f32[2, 4], y: f32[2, 4], c: bool[2, 4], d: bool[2, 4], ids: i32[2], wide: f32[2, 3, 8], "
    "image: f32[1, 4, 6, 8], square: f32[4, 2, 3, 3], line: f32[3, 3, 2], "
    "volume: f32[1, 2, 5, 5, 5], cube: f32[2, 2, 3, 3, 3], "
    "thin: f32[1, 16, 8], w: f32[4], v: f32[4], near: i32[2, 4], labels: i32[2], n: i32[2, 4]"
)

_UNARY = (
    "neg abs sign exp expm1 log log1p sqrt rsqrt recip sin cos tan tanh sigmoid erf floor "
    "ceil round round_tf32 relu leaky_relu elu softplus silu gelu hard_sigmoid hard_swish isnan "
    "stop_gradient identity flatten argmax argmin var logsumexp cumsum cumprod softmax "
    "log_softmax sum mean prod max_reduce min_reduce flip tril triu "
)
_BINARY = (
    "add sub mul div pow mod max min eq ne lt le gt ge swiglu geglu mse l1 huber bce "
    "bce_with_logits "
)

EXAMPLES: dict[str, str] = {
    **{name: f"{name}(x)" for name in _UNARY.split()},
    **{name: f"{name}(x, y)" for name in _BINARY.split()},
    "leaky_relu": "leaky_relu(x, slope = 0.2)",
    "gelu": 'gelu(x, approx = "tanh")',
    "sum": "sum(x, axis = [0, 1], keepdims = true)",
    "clamp": "clamp(x, min = -1.0, max = 1)",
    "cast": "cast(x, f16)",
    "logical_not": "logical_not(c)",
    "logical_and": "logical_and(c, d)",
    "logical_or": "logical_or(c, true)",
    "where": "where(c, x, 0.0)",
    "pick": "pick(c, x, y)",
    "matmul": "matmul(x, y, transpose_b = true)",
    "linear": "linear(x, y)",
    "einsum": 'einsum("ij,kj->ik", x, y)',
    "layer_norm": "layer_norm(x, w, v, eps = 1e-6)",
    "rms_norm": "rms_norm(x, w)",
    "group_norm": "group_norm(wide, groups = 1)",
    "instance_norm": "instance_norm(wide)",
    "batch_norm": "batch_norm(x, w, v, w, v)",
    "attention": "attention(wide, wide, wide, heads = 2, causal = true)",
    "attention_lse": "attention_lse(wide, wide, heads = 2, causal = true)",
    **{
        name: f"{name}(wide, wide, wide, wide, wide[:, :, 0:2], wide[:, :, 1:3], heads = 2)"
        for name in ("attention_query_gradient", "attention_key_gradient")
    },
    "attention_parts": "attention_parts(wide, wide, wide, heads = 2, each = 2)",
    "rope": "rope(wide, 4, theta = 100.0)",
    "reshape": "reshape(x, [4, -1])",
    "transpose": "transpose(x, [1, 0])",
    "broadcast_to": "broadcast_to(w, [3, 4])",
    "expand_dims": "expand_dims(x, 1)",
    "squeeze": "squeeze(x[0:1])",
    "slice": "slice(x, [0, 1], [2, 4], steps = [1, 2])",
    "concat": "concat([x, y], axis = 1)",
    "stack": "stack([x, y], axis = -1)",
    "split": "split(x, [1, 3], axis = 1)[1]",
    "pad": "pad(x, [[0, 1], [2, 0]], 1.5)",
    "tile": "tile(x, [2, 1])",
    "repeat": "repeat(x, 2, axis = 0)",
    "iota": "iota([2, 4], axis = 0, T = f32)",
    "full": "full([2, 4], inf, T = f16)",
    "one_hot": "one_hot(ids, 5, T = f16)",
    "embedding": "embedding(ids, x)",
    "windows": "windows(x, [2], strides = 2)",
    "convolution": "convolution(wide, line, dilation = 2)",
    "conv1d": 'conv1d(wide, line, padding = "same")',
    "conv2d": "conv2d(image, square, stride = [2, 1], padding = [[1, 0], [0, 2]], groups = 2)",
    "conv3d": "conv3d(volume, cube, dilation = 2)",
    "conv_transpose1d": "conv_transpose1d(wide, line, stride = 2, output_padding = 1)",
    "conv_transpose2d": "conv_transpose2d(image, square)",
    "conv_transpose3d": "conv_transpose3d(volume, cube, stride = 2)",
    "max_pool1d": "max_pool1d(wide, 2)",
    "max_pool2d": "max_pool2d(image, 3, stride = 2, padding = 1, ceil_mode = true)",
    "max_pool3d": "max_pool3d(volume, [2, 1, 2])",
    "avg_pool1d": "avg_pool1d(wide, 2, stride = 1)",
    "avg_pool2d": "avg_pool2d(image, 3, padding = 1, count_include_pad = false)",
    "avg_pool3d": "avg_pool3d(volume, 2)",
    "global_avg_pool": "global_avg_pool(image)",
    "global_max_pool": "global_max_pool(volume)",
    "adaptive_avg_pool2d": "adaptive_avg_pool2d(image, [3, 2])",
    "adaptive_max_pool2d": "adaptive_max_pool2d(image, [3, 2])",
    "upsample": 'upsample(image, 2, mode = "bilinear")',
    "pixel_shuffle": "pixel_shuffle(image, 2)",
    "pixel_unshuffle": "pixel_unshuffle(image, 2)",
    "gather": "gather(x, ids, axis = 1)",
    "take_along_axis": "take_along_axis(x, near, axis = 1)",
    "dynamic_update_slice": "dynamic_update_slice(x, y[0:1, 1:3], [1, ids[0]])",
    "scatter_along": "scatter_along(x, near[:, 0:1], y[:, 1:2], axis = 1)",
    "run_bounds": "run_bounds(ids, 3)",
    "scatter_runs": "scatter_runs(x[0:1], near[:, 0:1], near[:, 1:2], y)",
    "scatter_along_in_parts": "scatter_along_in_parts"
    "(x, near[:, 0:1], y[:, 1:2], x[:, 0:0], axis = 1, part = 2)",
    "bucket_totals": "bucket_totals(near, y, bits = 1, part = 2)",
    "scatter_in_buckets": "scatter_in_buckets"
    "(x, near[:, 0:1], y[:, 1:2], x[:, 0:0], axis = 1, bits = 3, part = 2)",
    "part_totals": "part_totals(near[:, 0:1], near[:, 1:2], y, part = 2)",
    "scatter_runs_in_parts": "scatter_runs_in_parts"
    "(x[0:1], near[:, 0:1], near[:, 1:2], y, y[0:1], part = 2)",
    "scatter_add": "scatter_add(x, ids, y)",
    "scatter": "scatter(x, near, y, axis = 1)",
    "sort": "sort(x, axis = 0, descending = true)",
    "argsort": "argsort(x)",
    "digit_counts": "digit_counts(x, part = 2)",
    "place_digits": "place_digits(x, near, cumsum(digit_counts(x, part = 2), axis = 2), part = 2)",
    "sort_digits": "sort_digits(x, near, shift = 8)",
    "sort_runs": "sort_runs(x, near, run = 2)",
    "topk": "topk(x, 2)[1]",
    "block_sums": "block_sums(wide, rows = 2, leading = 2)",
    "running_sum": "running_sum(x)",
    "running_product": "running_product(x, axis = 0)",
    "running_sum_in_parts": "running_sum_in_parts(x, y[:, 0:2], part = 2)",
    "running_product_in_parts": "running_product_in_parts(x, y[0:1], axis = 0, part = 2)",
    "dynamic_slice": "dynamic_slice(x, [1, ids[0]], [1, 2])",
    "philox": "philox(cast(ids, u32), 1, 2, 3, cast(ids, u32), 5, word = 3)",
    "uniform": "uniform([2, 3], -1, 2.5, T = f64)",
    "normal": "normal([2, 3], std = 0.5)",
    "categorical": "categorical(x)",
    "dropout": "dropout(x, 0.25)",
    "recurrence": 'recurrence(wide[:, :, 0:2], thin[:, 0:2, 0:2], [thin[:, 0:3, 0:2]], "rnn")',
    "lstm": 'lstm(wide, thin[:, 0:8, :], thin[:, 8:16, 0:2], direction = "reverse")[2]',
    "gru": "gru(wide, thin[0, 0:3, :], thin[0, 0:3, 0:1], linear_before_reset = false)[0]",
    "rnn": 'rnn(wide, thin[0, 0:8, :], thin[0, 8:16, :], activation = "relu")[1]',
    "cross_entropy": "cross_entropy(x, labels)",
    "nll": 'nll(log_softmax(x), labels, reduction = "sum")',
    "huber": "huber(x, y, delta = 0.5)",
}
