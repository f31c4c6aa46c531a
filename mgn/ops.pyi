# Made from the operations' specifications by `python -m tests.generated_tables`.
from collections.abc import Sequence
from typing import Any

import numpy as np

from mgn.builder import Value

Tensor = Value | np.ndarray | float

def constant(value: Any, T: Any = None) -> Value: ...
def grad(loss: Value, values: Any) -> Any: ...
def jvp(y: Value, x: Any, v: Any) -> Value: ...
def abs(x: Tensor) -> Value: ...
def adaptive_avg_pool2d(x: Tensor, size: int | Sequence[int]) -> Value: ...
def adaptive_max_pool2d(x: Tensor, size: int | Sequence[int]) -> Value: ...
def add(a: Tensor, b: Tensor) -> Value: ...
def argmax(
    x: Tensor,
    axis: int | Sequence[int] | None = ...,
    keepdims: bool = ...,
    T: Any = ...,
) -> Value: ...
def argmin(
    x: Tensor,
    axis: int | Sequence[int] | None = ...,
    keepdims: bool = ...,
    T: Any = ...,
) -> Value: ...
def argsort(x: Tensor, axis: int = ..., descending: bool = ...) -> Value: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None = ...,
    *,
    heads: int,
    kv_heads: int | None = ...,
    causal: bool = ...,
    window: int = ...,
    scale: float | None = ...,
    softcap: float = ...,
    rounded_weights: bool = ...,
) -> Value: ...
def attention_key_gradient(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    lse: Tensor,
    own: Tensor,
    bias: Tensor | None = ...,
    *,
    heads: int,
    kv_heads: int | None = ...,
    causal: bool = ...,
    window: int = ...,
    scale: float | None = ...,
    softcap: float = ...,
) -> Value: ...
def attention_lse(
    q: Tensor,
    k: Tensor,
    bias: Tensor | None = ...,
    *,
    heads: int,
    kv_heads: int | None = ...,
    causal: bool = ...,
    window: int = ...,
    scale: float | None = ...,
    softcap: float = ...,
) -> Value: ...
def attention_parts(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None = ...,
    *,
    heads: int,
    kv_heads: int | None = ...,
    causal: bool = ...,
    window: int = ...,
    scale: float | None = ...,
    softcap: float = ...,
    rounded_weights: bool = ...,
    each: int,
) -> Value: ...
def attention_query_gradient(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    lse: Tensor,
    own: Tensor,
    bias: Tensor | None = ...,
    *,
    heads: int,
    kv_heads: int | None = ...,
    causal: bool = ...,
    window: int = ...,
    scale: float | None = ...,
    softcap: float = ...,
) -> Value: ...
def avg_pool1d(
    x: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    ceil_mode: bool = ...,
    count_include_pad: bool = ...,
) -> Value: ...
def avg_pool2d(
    x: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    ceil_mode: bool = ...,
    count_include_pad: bool = ...,
) -> Value: ...
def avg_pool3d(
    x: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    ceil_mode: bool = ...,
    count_include_pad: bool = ...,
) -> Value: ...
def batch_norm(
    x: Tensor,
    w: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    eps: float = ...,
) -> Value: ...
def bce(x: Tensor, target: Tensor, reduction: str = ...) -> Value: ...
def bce_with_logits(x: Tensor, target: Tensor, reduction: str = ...) -> Value: ...
def block_sums(x: Tensor, rows: int, leading: int = ...) -> Value: ...
def broadcast_to(x: Tensor, shape: int | Sequence[int]) -> Value: ...
def bucket_totals(ids: Tensor, src: Tensor, axis: int = ..., *, bits: int, part: int) -> Value: ...
def cast(x: Tensor, T: Any) -> Value: ...
def categorical(logits: Tensor, key: Tensor | None = ..., site: int = ...) -> Value: ...
def ceil(x: Tensor) -> Value: ...
def clamp(x: Tensor, min: float | None = ..., max: float | None = ...) -> Value: ...
def concat(operands: Sequence[Tensor], axis: int = ...) -> Value: ...
def conv1d(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = ...,
    stride: int | Sequence[int] = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    groups: int = ...,
) -> Value: ...
def conv2d(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = ...,
    stride: int | Sequence[int] = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    groups: int = ...,
) -> Value: ...
def conv3d(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = ...,
    stride: int | Sequence[int] = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    groups: int = ...,
) -> Value: ...
def conv_transpose1d(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = ...,
    stride: int | Sequence[int] = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    output_padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ...,
    groups: int = ...,
) -> Value: ...
def conv_transpose2d(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = ...,
    stride: int | Sequence[int] = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    output_padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ...,
    groups: int = ...,
) -> Value: ...
def conv_transpose3d(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = ...,
    stride: int | Sequence[int] = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    output_padding: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ...,
    groups: int = ...,
) -> Value: ...
def convolution(
    x: Tensor,
    w: Tensor,
    stride: int | Sequence[int] = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    groups: int = ...,
) -> Value: ...
def cos(x: Tensor) -> Value: ...
def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    reduction: str = ...,
    ignore_index: int | None = ...,
    check: bool = ...,
) -> Value: ...
def cumprod(x: Tensor, axis: int | Sequence[int] | None = ..., keepdims: bool = ...) -> Value: ...
def cumsum(x: Tensor, axis: int | Sequence[int] | None = ..., keepdims: bool = ...) -> Value: ...
def digit_counts(
    keys: Tensor,
    falls: Tensor | None = ...,
    axis: int = ...,
    descending: bool = ...,
    shift: int = ...,
    bits: int = ...,
    of: str = ...,
    part: int = ...,
    with_falls: bool = ...,
) -> Value: ...
def div(a: Tensor, b: Tensor) -> Value: ...
def dropout(x: Tensor, p: float = ...) -> Value: ...
def dynamic_slice(
    x: Tensor,
    starts: Tensor | Sequence[Tensor],
    sizes: int | Sequence[int],
) -> Value: ...
def dynamic_update_slice(x: Tensor, src: Tensor, starts: Tensor | Sequence[Tensor]) -> Value: ...
def einsum(equation: str, *operands: Tensor) -> Value: ...
def elu(x: Tensor, alpha: float = ...) -> Value: ...
def embedding(ids: Tensor, table: Tensor) -> Value: ...
def eq(a: Tensor, b: Tensor) -> Value: ...
def erf(x: Tensor) -> Value: ...
def exp(x: Tensor) -> Value: ...
def expand_dims(x: Tensor, axis: int | Sequence[int] | None) -> Value: ...
def expm1(x: Tensor) -> Value: ...
def flatten(x: Tensor, start: int = ..., end: int = ...) -> Value: ...
def flip(x: Tensor, axis: int | Sequence[int] | None = ...) -> Value: ...
def floor(x: Tensor) -> Value: ...
def full(shape: int | Sequence[int], value: float, T: Any = ...) -> Value: ...
def gather(x: Tensor, ids: Tensor, axis: int = ...) -> Value: ...
def ge(a: Tensor, b: Tensor) -> Value: ...
def geglu(gate: Tensor, up: Tensor, approx: str = ...) -> Value: ...
def gelu(x: Tensor, approx: str = ...) -> Value: ...
def global_avg_pool(x: Tensor) -> Value: ...
def global_max_pool(x: Tensor) -> Value: ...
def group_norm(
    x: Tensor,
    w: Tensor | None = ...,
    b: Tensor | None = ...,
    *,
    groups: int,
    eps: float = ...,
) -> Value: ...
def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = ...,
    h0: Tensor | None = ...,
    direction: str = ...,
    linear_before_reset: bool = ...,
) -> tuple[Value, ...]: ...
def gt(a: Tensor, b: Tensor) -> Value: ...
def hard_sigmoid(x: Tensor) -> Value: ...
def hard_swish(x: Tensor) -> Value: ...
def huber(x: Tensor, target: Tensor, reduction: str = ..., delta: float = ...) -> Value: ...
def identity(x: Tensor) -> Value: ...
def instance_norm(
    x: Tensor,
    w: Tensor | None = ...,
    b: Tensor | None = ...,
    eps: float = ...,
) -> Value: ...
def iota(shape: int | Sequence[int], axis: int = ..., T: Any = ...) -> Value: ...
def isnan(x: Tensor) -> Value: ...
def l1(x: Tensor, target: Tensor, reduction: str = ...) -> Value: ...
def layer_norm(
    x: Tensor,
    w: Tensor | None = ...,
    b: Tensor | None = ...,
    eps: float = ...,
) -> Value: ...
def le(a: Tensor, b: Tensor) -> Value: ...
def leaky_relu(x: Tensor, slope: float = ...) -> Value: ...
def linear(x: Tensor, w: Tensor, b: Tensor | None = ...) -> Value: ...
def log(x: Tensor) -> Value: ...
def log1p(x: Tensor) -> Value: ...
def log_softmax(x: Tensor, axis: int = ...) -> Value: ...
def logical_and(a: Tensor, b: Tensor) -> Value: ...
def logical_not(x: Tensor) -> Value: ...
def logical_or(a: Tensor, b: Tensor) -> Value: ...
def logsumexp(x: Tensor, axis: int | Sequence[int] | None = ..., keepdims: bool = ...) -> Value: ...
def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = ...,
    h0: Tensor | None = ...,
    c0: Tensor | None = ...,
    direction: str = ...,
) -> tuple[Value, ...]: ...
def lt(a: Tensor, b: Tensor) -> Value: ...
def matmul(a: Tensor, b: Tensor, transpose_a: bool = ..., transpose_b: bool = ...) -> Value: ...
def max(a: Tensor, b: Tensor) -> Value: ...
def max_pool1d(
    x: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    ceil_mode: bool = ...,
) -> Value: ...
def max_pool2d(
    x: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    ceil_mode: bool = ...,
) -> Value: ...
def max_pool3d(
    x: Tensor,
    kernel: int | Sequence[int],
    stride: int | Sequence[int] | None = ...,
    padding: int | str | Sequence[int] | Sequence[Sequence[int]] = ...,
    dilation: int | Sequence[int] = ...,
    ceil_mode: bool = ...,
) -> Value: ...
def max_reduce(
    x: Tensor,
    axis: int | Sequence[int] | None = ...,
    keepdims: bool = ...,
) -> Value: ...
def mean(x: Tensor, axis: int | Sequence[int] | None = ..., keepdims: bool = ...) -> Value: ...
def min(a: Tensor, b: Tensor) -> Value: ...
def min_reduce(
    x: Tensor,
    axis: int | Sequence[int] | None = ...,
    keepdims: bool = ...,
) -> Value: ...
def mod(a: Tensor, b: Tensor) -> Value: ...
def mse(x: Tensor, target: Tensor, reduction: str = ...) -> Value: ...
def mul(a: Tensor, b: Tensor) -> Value: ...
def ne(a: Tensor, b: Tensor) -> Value: ...
def neg(x: Tensor) -> Value: ...
def nll(
    x: Tensor,
    labels: Tensor,
    reduction: str = ...,
    ignore_index: int | None = ...,
    check: bool = ...,
) -> Value: ...
def normal(
    shape: int | Sequence[int],
    mean: float = ...,
    std: float = ...,
    T: Any = ...,
    key: Tensor | None = ...,
    site: int = ...,
) -> Value: ...
def one_hot(ids: Tensor, classes: int, T: Any = ...) -> Value: ...
def pad(x: Tensor, padding: Sequence[Sequence[int]], value: float = ...) -> Value: ...
def part_totals(
    ids: Tensor,
    order: Tensor,
    src: Tensor,
    axis: int = ...,
    *,
    part: int,
    combine: str = ...,
) -> Value: ...
def philox(
    c0: Tensor,
    c1: Tensor,
    c2: Tensor,
    c3: Tensor,
    k0: Tensor,
    k1: Tensor,
    word: int = ...,
) -> Value: ...
def pick(condition: Tensor, a: Tensor, b: Tensor) -> Value: ...
def pixel_shuffle(x: Tensor, factor: int) -> Value: ...
def pixel_unshuffle(x: Tensor, factor: int) -> Value: ...
def place_digits(
    keys: Tensor,
    payload: Tensor,
    sums: Tensor,
    falls: Tensor | None = ...,
    axis: int = ...,
    descending: bool = ...,
    shift: int = ...,
    bits: int = ...,
    of: str = ...,
    part: int = ...,
) -> Value: ...
def pow(a: Tensor, b: Tensor) -> Value: ...
def prod(x: Tensor, axis: int | Sequence[int] | None = ..., keepdims: bool = ...) -> Value: ...
def recip(x: Tensor) -> Value: ...
def recurrence(
    given: Tensor,
    r: Tensor,
    states: Sequence[Tensor],
    cell: str,
    direction: str = ...,
) -> Value: ...
def relu(x: Tensor) -> Value: ...
def repeat(x: Tensor, repeats: int, axis: int | None = ...) -> Value: ...
def reshape(x: Tensor, shape: int | Sequence[int]) -> Value: ...
def rms_norm(x: Tensor, w: Tensor | None = ..., eps: float = ...) -> Value: ...
def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = ...,
    h0: Tensor | None = ...,
    direction: str = ...,
    activation: str = ...,
) -> tuple[Value, ...]: ...
def rope(
    x: Tensor,
    head_dim: int,
    theta: float = ...,
    offset: Tensor = ...,
    interleaved: bool = ...,
) -> Value: ...
def round(x: Tensor) -> Value: ...
def round_tf32(x: Tensor) -> Value: ...
def rsqrt(x: Tensor) -> Value: ...
def run_bounds(ids: Tensor, places: int, axis: int = ...) -> Value: ...
def running_product(x: Tensor, axis: int = ...) -> Value: ...
def running_product_in_parts(
    x: Tensor,
    before: Tensor,
    axis: int = ...,
    *,
    part: int,
    totals: bool = ...,
) -> Value: ...
def running_sum(x: Tensor, axis: int = ...) -> Value: ...
def running_sum_in_parts(
    x: Tensor,
    before: Tensor,
    axis: int = ...,
    *,
    part: int,
    totals: bool = ...,
) -> Value: ...
def scatter(x: Tensor, ids: Tensor, src: Tensor, axis: int = ...) -> Value: ...
def scatter_add(x: Tensor, ids: Tensor, src: Tensor, axis: int = ...) -> Value: ...
def scatter_along(
    x: Tensor,
    ids: Tensor,
    src: Tensor,
    axis: int = ...,
    combine: str = ...,
    sorted: bool = ...,
) -> Value: ...
def scatter_along_in_parts(
    x: Tensor,
    ids: Tensor,
    src: Tensor,
    totals: Tensor,
    axis: int = ...,
    *,
    part: int,
    combine: str = ...,
) -> Value: ...
def scatter_in_buckets(
    x: Tensor,
    ids: Tensor,
    src: Tensor,
    totals: Tensor,
    axis: int = ...,
    *,
    bits: int,
    part: int,
) -> Value: ...
def scatter_runs(
    x: Tensor,
    bounds: Tensor,
    order: Tensor,
    src: Tensor,
    axis: int = ...,
    combine: str = ...,
) -> Value: ...
def scatter_runs_in_parts(
    x: Tensor,
    bounds: Tensor,
    order: Tensor,
    src: Tensor,
    totals: Tensor,
    axis: int = ...,
    *,
    part: int,
    combine: str = ...,
) -> Value: ...
def sigmoid(x: Tensor) -> Value: ...
def sign(x: Tensor) -> Value: ...
def silu(x: Tensor) -> Value: ...
def sin(x: Tensor) -> Value: ...
def slice(
    x: Tensor,
    starts: Sequence[int],
    stops: Sequence[int],
    steps: Sequence[int] | None = ...,
) -> Value: ...
def softmax(x: Tensor, axis: int = ...) -> Value: ...
def softplus(x: Tensor) -> Value: ...
def sort(x: Tensor, axis: int = ..., descending: bool = ...) -> Value: ...
def sort_digits(
    keys: Tensor,
    payload: Tensor,
    axis: int = ...,
    descending: bool = ...,
    shift: int = ...,
    bits: int = ...,
    of: str = ...,
) -> Value: ...
def sort_runs(
    keys: Tensor,
    payload: Tensor,
    axis: int = ...,
    descending: bool = ...,
    run: int = ...,
    ordered: int = ...,
    first: int = ...,
) -> Value: ...
def split(x: Tensor, sizes: Sequence[int], axis: int = ...) -> tuple[Value, ...]: ...
def sqrt(x: Tensor) -> Value: ...
def squeeze(x: Tensor, axis: int | Sequence[int] | None = ...) -> Value: ...
def stack(operands: Sequence[Tensor], axis: int = ...) -> Value: ...
def stop_gradient(x: Tensor) -> Value: ...
def sub(a: Tensor, b: Tensor) -> Value: ...
def sum(x: Tensor, axis: int | Sequence[int] | None = ..., keepdims: bool = ...) -> Value: ...
def swiglu(gate: Tensor, up: Tensor) -> Value: ...
def take_along_axis(x: Tensor, ids: Tensor, axis: int = ...) -> Value: ...
def tan(x: Tensor) -> Value: ...
def tanh(x: Tensor) -> Value: ...
def tile(x: Tensor, repeats: int | Sequence[int]) -> Value: ...
def topk(x: Tensor, k: int, axis: int = ...) -> tuple[Value, ...]: ...
def transpose(x: Tensor, perm: Sequence[int]) -> Value: ...
def tril(x: Tensor, k: int = ...) -> Value: ...
def triu(x: Tensor, k: int = ...) -> Value: ...
def uniform(
    shape: int | Sequence[int],
    low: float = ...,
    high: float = ...,
    T: Any = ...,
    key: Tensor | None = ...,
    site: int = ...,
) -> Value: ...
def upsample(
    x: Tensor,
    scale: int | Sequence[int] | None = ...,
    size: int | Sequence[int] | None = ...,
    mode: str = ...,
    align_corners: bool = ...,
) -> Value: ...
def var(x: Tensor, axis: int | Sequence[int] | None = ..., keepdims: bool = ...) -> Value: ...
def where(condition: Tensor, a: Tensor, b: Tensor) -> Value: ...
def windows(
    x: Tensor,
    sizes: int | Sequence[int],
    strides: int | Sequence[int] = ...,
    dilation: int | Sequence[int] = ...,
) -> Value: ...
