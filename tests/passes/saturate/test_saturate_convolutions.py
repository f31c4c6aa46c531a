"""`saturate` on convolutions: what is one kernel, what becomes part of the weights."""

import pytest

import mgn


def kernels(text: str, device: str) -> list[tuple[str, ...]]:
    """The operations of each kernel of a run."""
    return [
        kernel.operations for kernel in mgn.optimize(mgn.parse(text), device=device).report.kernels
    ]


BLOCK = """
fn normed(x, n: str, c: int) {
  param g: f32[c] as "{n}.g"
  param b: f32[c] as "{n}.b"
  param m: f32[c] as "{n}.m"
  param v: f32[c] as "{n}.v"
  return batch_norm(x, g, b, m, v)
}
"""
RESIDUAL = (
    BLOCK
    + """
graph g(x: f32[1, 64, 56, 56]) {
  param w: f32[64, 64, 3, 3]
  param u: f32[64, 64, 3, 3]
  h = relu(normed(conv2d(x, w, padding = 1), "first", 64))
  return y = relu(normed(conv2d(h, u, padding = 1), "second", 64) + x)
}
"""
)
DEPTHWISE = (
    BLOCK
    + """
graph g(x: f32[1, 96, 56, 56]) {
  param w: f32[96, 1, 3, 3]
  return y = clamp(normed(conv2d(x, w, padding = 1, groups = 96), "n", 96), 0.0, 6.0)
}
"""
)


def test_a_residual_block_is_a_kernel_a_convolution_on_a_gpu() -> None:
    first, second = kernels(RESIDUAL, "nvidia-h200")
    for operations in (first, second):
        assert {"pad", "windows", "matmul", "relu"} <= set(operations)


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_no_windows_of_a_convolution_lie_in_memory(device: str) -> None:
    """They are nine times what they are read from: the product reads through them."""
    for operations in kernels(RESIDUAL, device):
        assert ("windows" in operations) == ("matmul" in operations)


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_a_depthwise_convolution_is_one_sum_and_no_product(device: str) -> None:
    (operations,) = kernels(DEPTHWISE, device)
    assert {"windows", "sum", "clamp"} <= set(operations) and "matmul" not in operations


def test_a_convolution_of_single_elements_is_a_product() -> None:
    text = (
        "graph g(x: f32[1, 64, 14, 14]) {\n param w: f32[64, 64, 1, 1]\n return y = conv2d(x, w)\n}"
    )
    (operations,) = kernels(text, "nvidia-h200")
    assert set(operations) == {"reshape", "matmul"}


def test_a_batch_norm_becomes_part_of_the_weights_of_a_convolution() -> None:
    text = (
        BLOCK
        + """
graph g(x: f32[4, 64, 56, 56]) {
  param w: f32[64, 64, 3, 3]
  param c: f32[64]
  return y = normed(conv2d(x, w, c, padding = 1), "n", 64)
}
"""
    )
    report = mgn.optimize(mgn.parse(text), device="cpu").report
    assert report.saturation.fired["normalised-convolution-with-bias"] == 1
    assert all("mul" not in kernel.operations for kernel in report.kernels)


def test_a_batch_norm_of_inputs_is_left_to_the_epilogue() -> None:
    text = """
graph g(x: f32[1, 8, 14, 14], w: f32[8, 8, 3, 3], s: f32[8]) {
  return y = batch_norm(conv2d(x, w), s, s, s, s)
}
"""
    report = mgn.optimize(mgn.parse(text), device="cpu").report
    assert report.saturation.fired["normalised-convolution"] == 0


@pytest.mark.parametrize("batch", [1, 4])
def test_a_gradient_of_weights_writes_no_windows_with_their_elements_innermost(batch: int) -> None:
    """A CPU would find each element by itself; rows of places are vectors."""
    text = f"""graph g(x: f32[{batch}, 64, 16, 16], w: f32[64, 64, 3, 3]) {{
  return dw = grad(sum(conv2d(x, w, padding = 1)), w)
}}"""
    assert all(operations[-1] != "windows" for operations in kernels(text, "cpu"))
