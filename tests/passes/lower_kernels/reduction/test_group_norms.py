"""Norms of groups of channels, whose rows are reshaped on both sides of the reduction.

The reference is the interpreter; the bound is that of a norm of rows.
"""

from typing import Any

import numpy as np

from tests.passes.lower_kernels.test_differential import (
    EPSILON,
    assert_near,
    draw,
    layer_norm,
    layer_norm_bound,
)
from tests.support.lower_fixture import Run, check_all, forms_of, fused_kernel
from tests.support.opencl_fixture import cl_queue  # noqa: F401


def group_norm(b: Any, x: Any, w: Any, bias: Any) -> Any:
    """The norm of two groups of channels, scaled before or after the channels are back."""
    shape = x.type.get_shape()
    grouped = b.reshape(x, [shape[0], 2, -1])
    rows = layer_norm(b, grouped, 1.0, 0.0)
    ones = [shape[1], *[1] * (len(shape) - 2)]
    scaled = b.mul(b.reshape(rows, shape), b.reshape(w, ones))
    normal = b.add(scaled, b.reshape(bias, ones))
    return [normal, b.silu(normal)]


def test_a_norm_of_groups_goes_on_in_the_shape_of_channels(cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for shape in ((2, 4, 4, 16), (1, 6, 7, 7), (3, 2, 5), (1, 8, 33, 33), (2, 2, 1, 1)):
        types = [("f32", shape), *[("f32", shape[1:2])] * 2]
        arrays = [draw(element, size, n) for n, (element, size) in enumerate(types)]
        runs += forms_of(fused_kernel("reduction", types, group_norm), arrays, str(shape))

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        x, w, bias = run.arrays
        rows = (len(x), 2, -1)
        scale, shift = (
            np.broadcast_to(part.reshape(-1, *[1] * (x.ndim - 2)), x.shape).reshape(x.shape)
            for part in (w, bias)
        )
        parts = (x, scale, shift, want[0])
        bound = layer_norm_bound(*(part.reshape(rows) for part in parts)).reshape(x.shape)
        assert_near(got[0], want[0], bound, f"norm {run.what}")
        steepest = 1.1
        bound = steepest * bound + 9 * EPSILON["f32"] * (np.abs(want[0]) + np.abs(want[1]))
        assert_near(got[1], want[1], bound, f"silu {run.what}")

    check_all(cl_queue, runs, check)
