"""A call of each operator of the table, with small operands of odd sizes.

In: nothing. Out: `CASES`, calls by the operator's name: positional arguments, then those by name.
"""

from collections.abc import Callable
from typing import Any

import torch

Arguments = tuple[Any, ...]
Case = Callable[[], Arguments | tuple[Arguments, dict[str, Any]]]

_random = torch.Generator().manual_seed(7)


def T(*shape: int) -> torch.Tensor:
    """Numbers of a normal distribution, in f64."""
    return torch.randn(shape, generator=_random, dtype=torch.float64)


def P(*shape: int) -> torch.Tensor:
    """Positive numbers."""
    return torch.rand(shape, generator=_random, dtype=torch.float64) + 0.5


def N(high: int, *shape: int, low: int = 0) -> torch.Tensor:
    """Integers from low to below high."""
    return torch.randint(low, high, shape, generator=_random)


def B(*shape: int) -> torch.Tensor:
    """Truths."""
    return torch.rand(shape, generator=_random) < 0.5


def distinct(*shape: int) -> torch.Tensor:
    """Numbers of which no two are equal."""
    count = int(torch.tensor(shape).prod())
    return torch.randperm(count, generator=_random).reshape(shape).double() * 0.37 - 3


UNARY = """abs neg sign sin cos tan tanh erf exp expm1 sigmoid silu relu ceil floor round trunc
hardsigmoid hardswish gelu leaky_relu elu softplus mish log_sigmoid_forward log_sigmoid hardtanh
relu6 exp2 sinh cosh square isnan isinf isfinite alias clone detach lift_fresh_copy"""
POSITIVE = "log log1p sqrt rsqrt reciprocal log2 log10"
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
CASES: dict[str, Case] = {
    **{f"{name}.default": lambda: (T(3, 5) * 3,) for name in UNARY.split()},
    **{f"{name}.default": lambda: (P(3, 5),) for name in POSITIVE.split()},
    **{f"{name}.Tensor": lambda: (N(3, 3, 5), N(3, 5)) for name in COMPARISONS},
    **{f"{name}.Scalar": lambda: (N(3, 3, 5), 1) for name in COMPARISONS},
    **{
        f"{name}.default": lambda: (N(2, 3, 5), B(3, 5))
        for name in ("logical_and", "logical_or", "logical_xor")
    },
    **{
        f"{name}.Tensor": lambda: (B(3, 5), B(5))
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "__and__", "__or__")
    },
    "bitwise_and.Scalar": lambda: (B(3), True),
    "bitwise_or.Scalar": lambda: (B(3), False),
    "bitwise_not.default": lambda: (B(5),),
    "logical_not.default": lambda: (N(2, 5),),
    "contiguous.default": lambda: (T(3, 4),),
    "_to_copy.default": lambda: ((T(3, 4) * 9,), {"dtype": torch.int32}),
    "to.dtype": lambda: (N(4, 3), torch.float64),
    "to.dtype_layout": lambda: ((N(4, 3),), {"dtype": torch.float64}),
    "copy.default": lambda: (T(3, 4), N(5, 4)),
    # arithmetic
    "add.Tensor": lambda: ((T(3, 5), N(5, 3, 1)), {"alpha": 2}),
    "add.Scalar": lambda: (N(5, 3), 1.5),
    "sub.Tensor": lambda: ((T(3, 5), T(5)), {"alpha": 0.5}),
    "sub.Scalar": lambda: (T(3), 2),
    "rsub.Tensor": lambda: ((T(3, 5), T(5)), {"alpha": 3}),
    "rsub.Scalar": lambda: (T(3), 2),
    "mul.Tensor": lambda: (T(3, 5), torch.tensor(3)),
    "mul.Scalar": lambda: (N(5, 3), 2),
    "div.Tensor": lambda: (N(9, 3, 5), N(9, 5, low=1)),
    "div.Scalar": lambda: (T(3), 3),
    "div.Tensor_mode": lambda: ((N(9, 20, low=-9), N(5, 20, low=1)), {"rounding_mode": "floor"}),
    "div.Scalar_mode": lambda: ((T(9) * 9, 2.5), {"rounding_mode": "trunc"}),
    "floor_divide.default": lambda: (T(20) * 9, P(20)),
    "remainder.Tensor": lambda: (N(9, 20, low=-9), N(5, 20, low=1)),
    "remainder.Scalar": lambda: (T(9) * 5, 1.5),
    "maximum.default": lambda: (T(3, 5), T(5)),
    "minimum.default": lambda: (T(3, 5), T(5)),
    "pow.Tensor_Scalar": lambda: (P(5), -0.5),
    "pow.Tensor_Tensor": lambda: (P(3, 5), T(5)),
    "pow.Scalar": lambda: (2.5, T(5)),
    "addcmul.default": lambda: ((T(3, 5), T(5), T(3, 1)), {"value": 2}),
    "addcdiv.default": lambda: (T(3, 5), T(5), P(3, 1)),
    "lerp.Scalar": lambda: (T(5), T(5), 0.3),
    "lerp.Tensor": lambda: (T(5), T(5), P(5)),
    "_prelu_kernel.default": lambda: (T(2, 3, 4), T(1, 3, 1)),
    "prelu.default": lambda: (T(2, 3, 4), T(3)),
    "clamp.default": lambda: (T(9), -0.5, 0.7),
    "clamp_min.default": lambda: (T(9), 0.1),
    "clamp_max.default": lambda: (N(9, 9), 5),
    "clamp.Tensor": lambda: ((T(3, 5),), {"max": T(5)}),
    "clamp_min.Tensor": lambda: (T(3, 5), T(5)),
    "clamp_max.Tensor": lambda: (T(3, 5), T(5)),
    "where.self": lambda: (B(3, 1), T(5), N(5, 3, 5)),
    "where.ScalarOther": lambda: (B(3, 5), T(5), 2),
    "where.ScalarSelf": lambda: (B(3, 5), 1, T(5)),
    "where.Scalar": lambda: (B(3, 5), 1.5, 2.0),
    "masked_fill.Scalar": lambda: (T(3, 5), B(5), float("-inf")),
    "masked_fill.Tensor": lambda: (T(3, 5), B(5), T()),
    # constants
    "full.default": lambda: ([2, 3], 1.5),
    "full_like.default": lambda: (T(2, 3), 2),
    "new_full.default": lambda: (T(2), [3, 1], 4),
    "fill.Scalar": lambda: (T(2, 3), 7),
    "fill.Tensor": lambda: (T(2, 3), T()),
    "scalar_tensor.default": lambda: (2.5,),
    "zeros.default": lambda: ([2, 3],),
    "zeros_like.default": lambda: (N(5, 2),),
    "new_zeros.default": lambda: (T(2), [3]),
    "ones.default": lambda: ([2, 0],),
    "ones_like.default": lambda: (B(2),),
    "new_ones.default": lambda: (T(2), [3]),
    "arange.default": lambda: (7,),
    "arange.start": lambda: (2, 9),
    "arange.start_step": lambda: ((2.0, 9.0, 1.5), {"dtype": torch.float64}),
    "linspace.default": lambda: ((-1.0, 2.0, 7), {"dtype": torch.float64}),
    "eye.default": lambda: (4,),
    "eye.m": lambda: (3, 5),
    # movement
    **dict.fromkeys(("view.default", "_unsafe_view.default", "reshape.default",
                     "view_copy.default", "_reshape_copy.default"),
                    lambda: (T(2, 6, 5), [4, -1])),
    "flatten.using_ints": lambda: (T(2, 6, 5), 1),
    "unflatten.int": lambda: (T(2, 6), 1, [2, 3]),
    "view_as.default": lambda: (T(2, 6), T(3, 4)),
    "_reshape_alias.default": lambda: (T(2, 6), [3, 4], [4, 1]),
    "unsqueeze.default": lambda: (T(2, 6), -1),
    "unsqueeze_copy.default": lambda: (T(2, 6), 0),
    "squeeze.default": lambda: (T(1, 6, 1),),
    "squeeze.dim": lambda: (T(1, 6, 1), 2),
    "squeeze_copy.dim": lambda: (T(1, 6, 1), 1),
    "squeeze.dims": lambda: (T(1, 6, 1), [0, 2]),
    **dict.fromkeys(("permute.default", "permute_copy.default"), lambda: (T(2, 3, 4), [-1, 0, 1])),
    **dict.fromkeys(("transpose.int", "transpose_copy.int"), lambda: (T(2, 3, 4), 0, -1)),
    **dict.fromkeys(("t.default", "t_copy.default", "numpy_T.default", "mT.default"),
                    lambda: (T(2, 3),)),
    **dict.fromkeys(("expand.default", "expand_copy.default"), lambda: (T(3, 1), [2, -1, 4])),
    "broadcast_to.default": lambda: (T(3, 1), [2, 3, 4]),
    "expand_as.default": lambda: (T(3, 1), T(2, 3, 4)),
    **dict.fromkeys(("slice.Tensor", "slice_copy.Tensor"), lambda: (T(3, 9), -1, 1, -2, 3)),
    "narrow.default": lambda: (T(3, 9), 1, 2, 4),
    **dict.fromkeys(("select.int", "select_copy.int"), lambda: (T(3, 9), 1, -2)),
    "slice_scatter.default": lambda: (T(3, 9), T(3, 4), 1, 2, 6),
    "select_scatter.default": lambda: (T(3, 9), T(3), 1, -1),
    **dict.fromkeys(("cat.default", "concat.default"), lambda: ([T(2, 3), T(0), N(4, 2, 2)], -1)),
    "stack.default": lambda: ([T(2, 3), T(2, 3)], 1),
    **dict.fromkeys(("split_with_sizes.default", "split_with_sizes_copy.default", "split.sizes"),
                    lambda: (T(2, 7), [3, 4], 1)),
    "split.Tensor": lambda: (T(7, 2), 3),
    "chunk.default": lambda: (T(7, 2), 3),
    "tensor_split.sections": lambda: (T(7, 2), 3),
    **dict.fromkeys(("unbind.int", "unbind_copy.int"), lambda: (T(2, 3), 1)),
    **dict.fromkeys(("repeat.default", "tile.default"), lambda: (T(3, 2), [2, 1, 3])),
    "repeat_interleave.self_int": lambda: (T(3, 2), 2, 1),
    "flip.default": lambda: (T(3, 4), [1]),
    "roll.default": lambda: (T(3, 4), [1, -2], [0, 1]),
    "constant_pad_nd.default": lambda: (T(3, 4), [1, -1, 0, 2], 2.5),
    **{f"reflection_pad{n}d.default": lambda n=n: (T(2, *[4] * (n + 1)), [1, 2] * n)
       for n in (1, 2, 3)},
    **{f"replication_pad{n}d.default": lambda n=n: (T(2, *[4] * (n + 1)), [1, 2] * n)
       for n in (1, 2, 3)},
    "pixel_shuffle.default": lambda: (T(2, 8, 3, 3), 2),
    "pixel_unshuffle.default": lambda: (T(2, 2, 4, 6), 2),
    **dict.fromkeys(("unfold.default", "unfold_copy.default"), lambda: (T(3, 9, 2), 1, 4, 2)),
    "tril.default": lambda: (T(3, 4), 1),
    "triu.default": lambda: (T(3, 4), -1),
    **dict.fromkeys(("diagonal.default", "diagonal_copy.default"), lambda: (T(3, 4, 5), -1, 0, 2)),
    # products
    "mm.default": lambda: (T(3, 4), T(4, 5)),
    "bmm.default": lambda: (T(2, 3, 4), T(2, 4, 5)),
    "matmul.default": lambda: (T(2, 3, 4), T(4)),
    "mv.default": lambda: (T(3, 4), T(4)),
    "dot.default": lambda: (T(4), T(4)),
    "vdot.default": lambda: (T(4), T(4)),
    "linear.default": lambda: (T(2, 3, 4), T(5, 4), T(5)),
    "addmm.default": lambda: ((T(5), T(3, 4), T(4, 5)), {"beta": 2, "alpha": 0.5}),
    "baddbmm.default": lambda: (T(2, 3, 5), T(2, 3, 4), T(2, 4, 5)),
    "addmv.default": lambda: (T(3), T(3, 4), T(4)),
    "_trilinear.default": lambda: (T(3, 4), T(5, 4, 2), T(3, 2), [1, 3], [0], [1, 2], [2, 3]),
    "einsum.default": lambda: ("bij, bjk -> bik", [T(2, 3, 4), T(2, 4, 5)]),
    # convolution, pooling, resizing
    "convolution.default": lambda: (
        T(2, 4, 7, 6), T(4, 3, 3, 2), T(6), [2, 1], [1, 0], [1, 2], True, [1, 0], 2,
    ),
    "max_pool1d.default": lambda: (T(2, 3, 9), 3, 2, 1),
    "max_pool2d.default": lambda: (T(2, 3, 9, 8), 3, 2, 1, 1, True),
    "max_pool3d.default": lambda: (T(2, 3, 5, 4, 6), 2),
    "max_pool2d_with_indices.default": lambda: (
        T(2, 3, 9, 8), [3, 2], [2, 3], [1, 1], [2, 1], True,
    ),
    "max_pool3d_with_indices.default": lambda: (T(3, 5, 4, 6), 2),
    "avg_pool1d.default": lambda: (T(2, 3, 9), 3, 2, 1),
    "avg_pool2d.default": lambda: (T(3, 9, 8), 3, 2, 1, True, False),
    "avg_pool3d.default": lambda: (T(2, 3, 5, 4, 6), 2),
    "_adaptive_avg_pool2d.default": lambda: (T(2, 3, 7, 8), [3, 4]),
    "adaptive_max_pool2d.default": lambda: (distinct(2, 3, 7, 8), [3, 5]),
    "adaptive_avg_pool2d.default": lambda: (T(3, 7, 8), [1, 1]),
    **{f"upsample_nearest{n}d.default": lambda n=n: (T(2, 3, *[4] * n), [7] * n)
       for n in (1, 2, 3)},
    **{f"upsample_nearest{n}d.vec": lambda n=n: (T(2, 3, *[4] * n), None, [2.0] * n)
       for n in (1, 2, 3)},
    "upsample_bilinear2d.default": lambda: (T(2, 3, 4, 5), [7, 9], True),
    "upsample_bilinear2d.vec": lambda: (T(2, 3, 4, 5), None, False, [2.0, 2.0]),
    # norms
    **{f"{name}.int": lambda: (T(3, 5), -1) for name in ("softmax", "log_softmax")},
    **{f"{name}.default": lambda: (T(3, 5), 0, False) for name in ("_softmax", "_log_softmax")},
    "_safe_softmax.default": lambda: (
        torch.tensor([[0.5, -torch.inf], [-torch.inf, -torch.inf]], dtype=torch.float64), -1,
    ),
    "layer_norm.default": lambda: (T(2, 3, 4), [3, 4], None, None, 1e-3),
    "native_layer_norm.default": lambda: (T(2, 3, 4), [4], T(4), T(4), 1e-3),
    "rms_norm.default": lambda: (T(2, 3, 4), [4], T(4), 1e-3),
    "_fused_rms_norm.default": lambda: (T(2, 3, 4), [4], T(4), 1e-3),
    "group_norm.default": lambda: (T(2, 6, 4), 3, T(6), T(6)),
    "native_group_norm.default": lambda: (T(2, 6, 4), T(6), T(6), 2, 6, 4, 3, 1e-5),
    "_native_batch_norm_legit_no_training.default": lambda: (
        T(2, 3, 4), T(3), None, T(3), P(3), 0.1, 1e-5,
    ),
    "_native_batch_norm_legit_functional.default": lambda: (
        T(4, 3, 4), T(3), T(3), T(3), P(3), True, 0.1, 1e-5,
    ),
    "_native_batch_norm_legit.no_stats": lambda: (T(4, 3, 4), T(3), T(3), True, 0.1, 1e-5),
    "linalg_vector_norm.default": lambda: (T(3, 5), 2, [1], True),
    "_weight_norm_interface.default": lambda: (T(4, 3, 5), T(1, 1, 5), 2),
    # reductions
    **{f"{name}.default": lambda: (T(3, 5),) for name in ("sum", "mean", "prod", "max", "min")},
    "nansum.default": lambda: (torch.tensor([1.0, torch.nan, 2.0], dtype=torch.float64),),
    "sum.dim_IntList": lambda: (N(5, 3, 4, 5), [0, -1], True),
    "mean.dim": lambda: (T(3, 4, 5), [1]),
    "prod.dim_int": lambda: (T(3, 4), 1),
    **{f"{name}.default": lambda: (T(3, 4, 5), [0, 2]) for name in ("amax", "amin")},
    **{f"{name}.dim": lambda: (T(3, 4, 5), 1, True) for name in ("max", "min")},
    **{f"{name}.default": lambda: (T(3, 4), 1) for name in ("argmax", "argmin")},
    **{f"{name}.default": lambda: (B(3, 4),) for name in ("any", "all")},
    **{f"{name}.dim": lambda: (B(3, 4), 1) for name in ("any", "all")},
    **{f"{name}.dims": lambda: (B(3, 4, 2), [0, 2]) for name in ("any", "all")},
    "var.correction": lambda: (T(3, 5), [1]),
    "std.correction": lambda: ((T(3, 5),), {"correction": 0}),
    "var_mean.correction": lambda: ((T(3, 5), [0]), {"correction": 1, "keepdim": True}),
    "logsumexp.default": lambda: (T(3, 5), [1]),
    "cumsum.default": lambda: (N(5, 3, 4), 1),
    "cumprod.default": lambda: (T(3, 4), 0),
    "topk.default": lambda: (T(3, 9), 4, 1, False),
    "sort.default": lambda: (T(3, 9), 0),
    "sort.stable": lambda: ((N(4, 9),), {"stable": True, "descending": True}),
    # indexing
    "embedding.default": lambda: (T(7, 3), N(7, 2, 4)),
    "embedding_dense_backward.default": lambda: (T(2, 4, 3), N(7, 2, 4), 7, 2, False),
    "index_select.default": lambda: (T(3, 7), 1, N(7, 4)),
    "gather.default": lambda: (T(3, 7), 1, N(7, 2, 4)),
    "take_along_dim.default": lambda: (T(3, 7), N(7, 1, 4), 1),
    "scatter.src": lambda: (T(3, 7), 1, torch.tensor([[2, 0], [6, 1]]), T(2, 3)),
    "scatter.value": lambda: (T(3, 7), 1, N(7, 2, 4), 2.5),
    "scatter_add.default": lambda: (T(3, 7), 1, N(7, 2, 4), T(3, 5)),
    "_cdist_forward.default": lambda: (T(2, 3, 7), T(2, 5, 7), 2.0, None),
    "scatter_reduce.two": lambda: (T(3, 7), 1, N(7, 2, 4), T(3, 5), "amax"),
    "index_add.default": lambda: ((T(3, 7), 1, N(7, 4), T(3, 4)), {"alpha": 2}),
    "index_copy.default": lambda: (T(3, 7), 1, torch.tensor([5, 0]), T(3, 2)),
    **dict.fromkeys(("index.Tensor", "_unsafe_index.Tensor"),
                    lambda: (T(3, 7, 4), [None, N(7, 2, 1, low=-7), N(4, 5)])),
    **dict.fromkeys(("index_put.default", "_unsafe_index_put.default"),
                    lambda: (T(3, 7, 4), [N(3, 6), None, N(4, 6)], T(6, 7), True)),
    # attention
    "scaled_dot_product_attention.default": lambda: (
        T(2, 3, 5, 4), T(2, 3, 7, 4), T(2, 3, 7, 4), B(2, 1, 5, 7),
    ),
    "_scaled_dot_product_flash_attention_for_cpu.default": lambda: (
        (T(2, 3, 5, 4), T(2, 3, 7, 4), T(2, 3, 7, 4), 0.0, False), {"attn_mask": T(2, 1, 5, 7)},
    ),
}  # fmt: skip
