"""More calls of operators that have several ways to be called."""

import torch

from tests.pytorch.backward_cases import weight_norm
from tests.pytorch.operator_cases import B, Case, N, P, T


def shared_heads(is_causal):
    """The gradients of attention in which three heads of queries share one of keys."""
    q, k, v = T(2, 6, 5, 4), T(2, 2, 5, 4), T(2, 2, 5, 4)
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, totals = attention(q, k, v, 0.0, is_causal)
    return T(2, 6, 5, 4), q, k, v, out, totals, 0.0, is_causal


_heads = (T(2, 6, 5, 4), T(2, 3, 7, 4), T(2, 3, 7, 8))
_inf, _nan = float("inf"), float("nan")
SPECIAL = torch.tensor([0.0, -0.0, 1.5, -2.5, _inf, -_inf, _nan, 0.5], dtype=torch.float64)
ENDS = torch.tensor([-128, 127, -3, 0, 7])
UNSEEN = torch.tensor([[True, False], [False, False]])

VARIANTS: list[tuple[str, Case]] = [
    *(("scatter_reduce.two", lambda how=how, own=own: (
        (T(4, 7), 0, N(4, 3, 6), T(5, 6), how), {"include_self": own}))
      for how in ("sum", "mean", "amax", "amin") for own in (True, False)),
    *(("scatter_reduce.two", lambda how=how: (N(9, 5, low=-9), 0, N(5, 8), N(9, 8, low=-9), how))
      for how in ("sum", "amax", "amin")),
    ("scatter_reduce.two", lambda: (T(3), 0, torch.tensor([2]), torch.tensor([_nan]).double(),
                                    "amax")),
    ("scatter_reduce.two", lambda: (T(3, 4), 1, N(4, 3, 0), T(3, 2), "amax")),
    *(("sort.stable", lambda axis=axis: ((torch.stack([
        SPECIAL, SPECIAL.flip(0), torch.full((8,), _nan, dtype=torch.float64),
        torch.tensor([_nan, _inf, _nan, 1, 1, -_inf, 0, -0.0], dtype=torch.float64)]), ),
        {"stable": True, "dim": axis, "descending": True})) for axis in (0, 1, -1)),
    *(("_cdist_forward.default", lambda order=order: (T(1, 2, 4, 3), T(1, 2, 1, 3), order, 2))
      for order in (1.0, 2.0, _inf)),
    *(("adaptive_max_pool2d.default", lambda x=x, size=size: (x, size)) for x, size in (
        (T(3, 7, 8), [1, 1]), (T(2, 6, 4), [3, 2]), (T(1, 2, 3, 2), [5, 4]),
        (SPECIAL.reshape(1, 2, 4), [2, 2]), (torch.zeros(1, 1, 5, 5).double(), [2, 3]))),
    *((f"{name}.default", lambda: (SPECIAL,)) for name in (
        "abs", "neg", "sign", "relu", "ceil", "floor", "round", "trunc", "isnan", "isinf",
        "isfinite", "exp", "expm1", "sigmoid", "tanh", "erf", "square", "relu6", "hardtanh",
        "leaky_relu", "softplus", "log_sigmoid", "silu", "hardswish", "exp2", "logical_not")),
    *((f"{name}.default", lambda: (N(9, 3, 5, low=-4),)) for name in (
        "abs", "neg", "sign", "relu", "ceil", "trunc", "exp", "sqrt", "sigmoid", "isfinite", "sum",
        "prod", "max", "min", "square")),
    *((f"{name}.Tensor", lambda: (SPECIAL, SPECIAL.flip(0))) for name in ("eq", "lt", "ge", "add")),
    ("maximum.default", lambda: (SPECIAL, SPECIAL.flip(0))),
    ("minimum.default", lambda: (SPECIAL, SPECIAL.flip(0))),
    ("clamp.default", lambda: (SPECIAL, -1, 1)),
    ("threshold_backward.default", lambda: (torch.ones(8, dtype=torch.float64), SPECIAL, 0)),
    ("add.Tensor", lambda: (B(3), B(3))),
    ("mul.Tensor", lambda: (B(3), B(3))),
    ("mul.Tensor", lambda: (N(5, 3), B(3))),
    ("add.Tensor", lambda: (N(5, 3), torch.tensor(1.5))),
    ("sub.Tensor", lambda: (N(5, 3).to(torch.int32), N(5, 3))),
    ("lt.Tensor", lambda: (B(5), B(5))),
    ("div.Tensor_mode", lambda: ((N(9, 20, low=-9), N(5, 20, low=1)), {"rounding_mode": "trunc"})),
    ("div.Tensor_mode", lambda: ((T(20) * 9, -P(20)), {"rounding_mode": "floor"})),
    ("div.Tensor_mode", lambda: ((T(5), P(5)), {"rounding_mode": None})),
    ("floor_divide.default", lambda: (SPECIAL[:, None], SPECIAL)),
    *(("floor_divide.default", lambda of=of: (ENDS[:, None].to(of), ENDS[ENDS < -1].to(of)))
      for of in (torch.int8, torch.int16)),
    ("floor_divide.default", lambda: (ENDS[:, None] << 24, torch.tensor([-1 << 31, 3, 7]))),
    *(("pow.Tensor_Scalar", lambda e=e: (P(5), e)) for e in (0, 0.5, 1, 2, 3, -1, 2.5)),
    ("pow.Tensor_Scalar", lambda: (N(5, 4), 3)),
    ("maximum.default", lambda: (B(4), B(4))),
    ("amax.default", lambda: (B(3, 4), [1])),
    ("max.dim", lambda: (torch.tensor([[1.0, 3.0, 3.0], [_nan, 1.0, _nan]]).double(), 1)),
    ("elu.default", lambda: (T(9), 1.5, 2.0, 0.7)),
    ("softplus.default", lambda: (T(9) * 9, 2.0, 5.0)),
    ("gelu.default", lambda: ((T(9),), {"approximate": "tanh"})),
    ("where.self", lambda: (B(3), torch.tensor(1.0).double(), T(3))),
    ("arange.start_step", lambda: (9, 1, -3)),
    ("linspace.default", lambda: ((2.0, 3.0, 1), {"dtype": torch.float64})),
    ("view.default", lambda: (T(0, 3), [3, 0])),
    ("slice.Tensor", lambda: (T(4, 3), 0, 3, 1)),
    ("cat.default", lambda: ([T(0), T(0)],)),
    ("roll.default", lambda: (T(3, 4), [5])),
    ("constant_pad_nd.default", lambda: (T(3, 4), [0, 0])),
    ("diagonal.default", lambda: (T(3, 4), 2)),
    ("slice_scatter.default", lambda: (T(3, 9), T(3, 9), 1, 0, 99)),
    ("slice_scatter.default", lambda: (T(3, 8), T(3, 4), 1, 0, 99, 2)),
    ("slice_scatter.default", lambda: (T(2, 9, 3), T(2, 3, 3), -2, 1, 8, 3)),
    ("slice_scatter.default", lambda: (T(2, 9, 3), T(2, 2, 3), 1, 2, 9, 4)),
    ("slice_scatter.default", lambda: (T(3, 9), T(3, 1), 1, 7, None, 5)),
    ("repeat_interleave.self_int", lambda: (T(3, 2), 2)),
    ("matmul.default", lambda: (T(4), T(2, 4, 3))),
    ("matmul.default", lambda: (T(3, 1, 2, 4), T(5, 4, 3))),
    ("linear.default", lambda: (T(3, 4), T(5, 4))),
    ("addmm.default", lambda: ((T(3, 1), T(3, 4), T(4, 5)), {"beta": 0})),
    ("_trilinear.default", lambda: (T(3, 4), T(3, 2), T(5), [1, 3], [2, 3], [0, 1, 2], [2])),
    ("einsum.default", lambda: ("...ij,...kj->...ik", [T(2, 3, 4), T(2, 5, 4)])),
    ("convolution.default", lambda: (
        T(2, 4, 9), T(8, 1, 3), None, [2], [1], [2], False, [0], 4)),
    ("convolution.default", lambda: (
        T(1, 4, 6, 7), T(5, 4, 3, 1), T(5), [1, 2], [1, 0], [1, 1], False, [0, 0], 1)),
    ("convolution.default", lambda: (
        T(1, 2, 5, 4, 6), T(3, 2, 2, 2, 3), T(3), [1], [0], [1], False, [0], 1)),
    ("convolution.default", lambda: (T(2, 3, 5), T(3, 2, 4), T(2), [3], [1], [1], True, [1], 1)),
    ("max_pool2d.default", lambda: (T(3, 9, 8), [3, 2])),
    ("max_pool2d_with_indices.default", lambda: (T(3, 9, 8).relu(), 3, 2, 1)),
    ("adaptive_avg_pool2d.default", lambda: (T(2, 3, 7, 8), [3, 3])),
    ("upsample_nearest2d.default", lambda: (T(2, 3, 5, 7), [3, 4])),
    ("upsample_bilinear2d.default", lambda: (T(2, 3, 5, 7), [3, 4], False)),
    ("layer_norm.default", lambda: (T(2, 3, 4), [3, 4], T(3, 4), T(3, 4))),
    ("native_layer_norm.default", lambda: (T(3, 4), [4], None, T(4), 1e-5)),
    ("rms_norm.default", lambda: (T(2, 3, 4), [3, 4], None, 1e-5)),
    ("rms_norm.default", lambda: (T(2, 3, 4), [3, 4], T(3, 4))),
    ("group_norm.default", lambda: (T(2, 6, 4, 3), 2, None, T(6))),
    ("_native_batch_norm_legit_functional.default", lambda: (
        T(4, 3, 4), None, None, T(3), P(3), False, 0.1, 1e-5)),
    ("linalg_vector_norm.default", lambda: (T(3, 5), _inf)),
    ("linalg_vector_norm.default", lambda: (T(3, 5), 1, [0])),
    ("softmax.int", lambda: (T(), 0)),
    ("sum.default", lambda: (T(),)),
    ("argmax.default", lambda: (T(3, 4),)),
    ("argmax.default", lambda: (T(3, 4), 0, True)),
    ("sum.dim_IntList", lambda: (B(3, 4), None)),
    ("var.correction", lambda: ((T(3, 4),), {"correction": 0.5})),
    ("var.correction", lambda: (T(1),)),
    ("logsumexp.default", lambda: (T(3, 5), [0, 1], True)),
    ("topk.default", lambda: (T(3, 9), 4)),
    ("cumsum.default", lambda: (B(5), 0)),
    ("index.Tensor", lambda: (T(3, 7, 4), [N(3, 2), None, N(4, 2)])),
    ("index.Tensor", lambda: (T(3, 7, 4), [None, N(7, 2, 3)])),
    ("index.Tensor", lambda: (T(3, 7, 4), [N(3, 5), N(7, 1)])),
    ("index_put.default", lambda: (T(3, 7), [None, torch.tensor([5, 2])], T(3, 2))),
    ("index_put.default", lambda: (T(3, 7), [B(3, 7)], torch.tensor(2.0).double())),
    ("index_put.default", lambda: (T(3, 7), [B(3)], torch.tensor(2.0).double(), True)),
    ("index_put.default", lambda: (T(5), [torch.tensor([-1, 0])], T(2))),
    ("gather.default", lambda: (T(), 0, torch.tensor(0))),
    ("index_select.default", lambda: (T(7), 0, torch.tensor(3))),
    ("scaled_dot_product_attention.default", lambda: (
        (*_heads, None, 0.0, True), {"scale": 0.3, "enable_gqa": True})),
    ("scaled_dot_product_attention.default", lambda: (T(2, 5, 4), T(2, 5, 4), T(2, 5, 4))),
    ("scaled_dot_product_attention.default", lambda: (
        T(1, 2, 5, 4), T(1, 2, 5, 4), T(1, 2, 5, 4), T(5, 5))),
    ("scaled_dot_product_attention.default", lambda: (
        T(1, 1, 2, 4), T(1, 1, 2, 4), T(1, 1, 2, 4), UNSEEN)),
    ("scaled_dot_product_attention.default", lambda: (
        (T(1, 2, 5, 4), T(1, 2, 5, 4), T(1, 2, 5, 4)), {"is_causal": True})),
    ("_scaled_dot_product_flash_attention_for_cpu.default", lambda: (
        T(2, 3, 5, 4), T(2, 3, 5, 4), T(2, 3, 5, 4), 0.0, True)),
    ("_scaled_dot_product_flash_attention_for_cpu.default", lambda: (
        T(2, 6, 5, 4), T(2, 2, 5, 4), T(2, 2, 5, 4), 0.0, True)),
    ("_scaled_dot_product_flash_attention_for_cpu_backward.default", lambda: shared_heads(False)),
    ("_scaled_dot_product_flash_attention_for_cpu_backward.default", lambda: shared_heads(True)),
    ("convolution_backward.default", lambda: (
        T(2, 2, 16), T(2, 3, 5), T(3, 2, 4), [2], [3], [0], [1], True, [0], 1,
        [True, True, True])),
    ("convolution_backward.default", lambda: (
        T(2, 6, 4), T(2, 3, 6), T(6, 1, 3), None, [1], [0], [1], False, [0], 3,
        [False, True, False])),
    ("_adaptive_avg_pool2d_backward.default", lambda: (T(3, 1, 1), T(3, 7, 8))),
    ("embedding_dense_backward.default", lambda: (T(4, 3), N(7, 4), 7, -1, False)),
    *(("_weight_norm_interface.default", lambda v=v, g=g, dim=dim: (T(*v), T(*g), dim))
      for v, g, dim in (((4, 3, 5), (4, 1, 1), 0), ((7, 3), (1, 3), 1), ((1, 6), (1, 1), 0),
                        ((5, 3, 1, 2), (5, 1, 1, 1), 0), ((1,), (1,), 0))),
    ("_weight_norm_interface.default", lambda: (torch.zeros(2, 3).double(), T(2, 1), 0)),
    ("_weight_norm_interface_backward.default", lambda: weight_norm((4, 3, 5), 0)),
    ("_weight_norm_interface_backward.default", lambda: weight_norm((4, 3), 1)),
    ("_weight_norm_interface_backward.default", lambda: weight_norm((5,), 0)),
]  # fmt: skip
"""Calls by their operators' names."""
