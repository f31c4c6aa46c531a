"""Rows of which a later walk reads another element than the one that it is at."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mgn.passes.kernels.body import read_body
from mgn.passes.kernels.rows import row_space, stages_of
from tests.support.lower_fixture import CPU, Run, check_all, fused_kernel
from tests.support.opencl_fixture import cl_queue  # noqa: F401

Build = Callable[[Any, Any, Any], Any]

READERS: dict[str, Build] = {
    "rows turned round": lambda b, y, s: b.flip(y, [0]),
    "elements turned round, and an operation": lambda b, y, s: b.mul(b.flip(y, [1]), s),
    "the value beside another row's": lambda b, y, s: b.add(y, b.flip(y, [0])),
    "the value beside its neighbour": lambda b, y, s: b.add(
        y, b.concat([b.slice(y, [0, 1], [7, 37]), b.slice(y, [0, 0], [7, 1])], axis=1)
    ),
    "a sum of products with others": lambda b, y, s: b.sum(
        b.mul(b.mul(y, b.flip(y, [1])), s), axis=[1]
    ),
}


def kernel_of(reader: Build) -> Any:
    """A kernel with the sums of dear values, and what a later walk makes of these values."""

    def build(b: Any, x: Any) -> Any:
        y = b.mul(b.exp(b.sin(x)), b.tanh(x))
        return b.sum(y, axis=[1]), reader(b, y, b.sum(y, axis=[1], keepdims=True))

    return fused_kernel("reduction", [("f32", (7, 37))], build)


def near(item: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    """A check: what came is what the interpreter says, within a few roundings."""
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4, err_msg=item.what)


def test_a_value_of_another_element_is_that_element_s(cl_queue: Any) -> None:  # noqa: F811
    x = np.random.default_rng(0).standard_normal((7, 37)).astype(np.float32)
    runs = [Run(kernel_of(reader), [x], CPU, {}, name) for name, reader in READERS.items()]
    check_all(cl_queue, runs, near)


@pytest.mark.parametrize("name", READERS)
def test_only_values_of_the_own_element_are_stored(name: str) -> None:
    body = read_body(kernel_of(READERS[name]))
    assert stages_of(body, row_space(body)).stored[0] == []
