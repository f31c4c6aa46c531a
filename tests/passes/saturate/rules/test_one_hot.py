"""Products of one-hot rows are gathers: which are, and what comes of ids outside."""

import numpy as np
import pytest

import mgn

PRODUCTS = {
    "matmul": "one_hot(i, 100) @ w",
    "einsum": 'einsum("bsc,cd->bsd", one_hot(i, 100), w)',
    "turned": "matmul(one_hot(i, 100), w.T, transpose_b = true)",
    "linear": "linear(one_hot(i, 100), transpose(w, [1, 0]))",
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_of_one_hot_rows_is_a_gather(name: str) -> None:
    text = f"graph g(i: i32[3, 4], w: f32[100, 8]) {{ y = {PRODUCTS[name]}\n return y }}"
    program = mgn.parse(text)
    kinds = [kernel.kind for kernel in mgn.optimize(program).report.kernels]
    assert "contraction" not in kinds
    random = np.random.default_rng(0)
    w = random.standard_normal((100, 8)).astype(np.float32)
    i = random.integers(-3, 103, (3, 4)).astype(np.int32)
    i[0, 0], i[0, 1], i[0, 2] = -1, 100, 99
    wanted = np.where(((i >= 0) & (i < 100))[..., None], w[i.clip(0, 99)], 0)
    np.testing.assert_array_equal(mgn.compile(program)(i=i, w=w)["y"], wanted)


def test_ids_that_cannot_count_the_rows_are_left_as_they_are() -> None:
    text = "graph g(i: u8[4], w: f32[300, 8]) { y = one_hot(i, 300) @ w\n return y }"
    program = mgn.parse(text)
    w = np.random.default_rng(1).standard_normal((300, 8)).astype(np.float32)
    i = np.array([0, 255, 7, 7], np.uint8)
    np.testing.assert_allclose(mgn.compile(program)(i=i, w=w)["y"], w[i], rtol=1e-6)
