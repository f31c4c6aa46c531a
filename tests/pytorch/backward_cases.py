"""Calls of the operators that compute gradients, as `operator_cases` has the others."""

import torch

from tests.pytorch.operator_cases import Case, T, distinct

aten = torch.ops.aten


def _attention(is_causal: bool) -> tuple[object, ...]:
    q, k, v = T(2, 3, 5, 4), T(2, 3, 5, 4), T(2, 3, 5, 4)
    out, totals = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, is_causal)
    return T(2, 3, 5, 4), q, k, v, out, totals, 0.0, is_causal


def _max_pool(axes: int) -> tuple[object, ...]:
    x = distinct(2, 3, *[7] * axes)
    window = ([3] * axes, [2] * axes, [1] * axes, [1] * axes, True)
    forward = aten.max_pool2d_with_indices if axes == 2 else aten.max_pool3d_with_indices
    largest, places = forward(x, *window)
    return T(*largest.shape), x, *window, places


def _layer_norm() -> tuple[object, ...]:
    x, weight, bias = T(2, 3, 4), T(4), T(4)
    _, mean, rstd = aten.native_layer_norm(x, [4], weight, bias, 1e-3)
    return T(2, 3, 4), x, [4], mean, rstd, weight, bias, [True, True, True]


def _group_norm() -> tuple[object, ...]:
    x, weight = T(2, 6, 4), T(6)
    _, mean, rstd = aten.native_group_norm(x, weight, None, 2, 6, 4, 3, 1e-3)
    return T(2, 6, 4), x, mean, rstd, weight, 2, 6, 4, 3, [True, True, True]


def _batch_norm() -> tuple[object, ...]:
    x, weight = T(4, 3, 5), T(3)
    _, mean, rstd = aten.native_batch_norm(x, weight, None, None, None, True, 0.1, 1e-3)
    return T(4, 3, 5), x, weight, None, None, mean, rstd, True, 1e-3, [True, True, True]


def weight_norm(shape: tuple[int, ...], dim: int) -> tuple[object, ...]:
    """Of a weight whose norms are over all axes but one."""
    v, g = T(*shape), T(*(size if axis == dim else 1 for axis, size in enumerate(shape)))
    _, norms = aten._weight_norm_interface(v, g, dim)
    return T(*shape), v, g, norms, dim


def _adaptive_max_pool() -> tuple[object, ...]:
    x = T(2, 3, 7, 8)
    return T(2, 3, 3, 5), x, torch.ops.aten.adaptive_max_pool2d(x, [3, 5])[1]


def _softmax(log: bool) -> tuple[object, ...]:
    y = torch.log_softmax(T(3, 5), 1) if log else torch.softmax(T(3, 5), 1)
    return T(3, 5), y, 1, torch.float64


CASES: dict[str, Case] = {
    "_scaled_dot_product_flash_attention_for_cpu_backward.default": lambda: _attention(True),
    "convolution_backward.default": lambda: (
        T(2, 6, 4, 7), T(2, 4, 7, 6), T(6, 2, 3, 2), [6], [2, 1], [1, 1], [1, 1], False, [0, 0], 2,
        [True, True, True],
    ),
    "max_pool2d_with_indices_backward.default": lambda: _max_pool(2),
    "max_pool3d_with_indices_backward.default": lambda: _max_pool(3),
    "avg_pool2d_backward.default": lambda: (
        T(2, 3, 4, 4), T(2, 3, 7, 7), [3, 3], [2, 2], [1, 1], False, False, None,
    ),
    "avg_pool3d_backward.default": lambda: (
        T(2, 3, 2, 2, 3), T(2, 3, 4, 4, 6), [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None,
    ),
    "_adaptive_avg_pool2d_backward.default": lambda: (T(2, 3, 3, 4), T(2, 3, 7, 8)),
    "adaptive_max_pool2d_backward.default": lambda: _adaptive_max_pool(),
    "upsample_nearest2d_backward.default": lambda: (T(2, 3, 7, 9), [7, 9], [2, 3, 4, 5]),
    "upsample_bilinear2d_backward.default": lambda: (T(2, 3, 7, 9), [7, 9], [2, 3, 4, 5], False),
    **{
        f"{name}_backward.default": lambda: (T(3, 5), T(3, 5) * 3)
        for name in ("silu", "hardswish", "hardsigmoid", "sigmoid", "tanh")
    },
    "gelu_backward.default": lambda: ((T(3, 5), T(3, 5)), {"approximate": "tanh"}),
    "threshold_backward.default": lambda: (T(3, 5), T(3, 5), 0.0),
    "hardtanh_backward.default": lambda: (T(3, 5), T(3, 5), -0.5, 0.5),
    "leaky_relu_backward.default": lambda: (T(3, 5), T(3, 5), 0.1, False),
    "_softmax_backward_data.default": lambda: _softmax(False),
    "_log_softmax_backward_data.default": lambda: _softmax(True),
    "native_layer_norm_backward.default": _layer_norm,
    "native_group_norm_backward.default": _group_norm,
    "native_batch_norm_backward.default": _batch_norm,
    "_weight_norm_interface_backward.default": lambda: weight_norm((4, 3, 5), 2),
}  # fmt: skip
