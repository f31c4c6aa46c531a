"""Few heads of keys that several heads share: what each of these sends is computed by itself."""

import pytest

import mgn
from mgn.dialects.fusion import FusedKernelOp

PROGRAM = """graph step(q: f32[1, 128, 576], k: f32[1, 128, 192], v: f32[1, 128, 192],
                 g: f32[1, 128, 576]) {
  y = attention(q, k, v, heads = 9, kv_heads = 3, causal = true)
  dq, dk, dv = grad(sum(y * g), [q, k, v])
  return y, dq, dk, dv
}"""


@pytest.mark.parametrize("precision", ["f32", "tf32"])
def test_their_gradient_is_a_sum_over_the_heads(precision: str) -> None:
    module = mgn.optimize(mgn.parse(PROGRAM), device="nvidia-h200", precision=precision).module
    kernels = [op for op in module.walk() if isinstance(op, FusedKernelOp)]
    kinds = [str(op.kernel_kind) for op in kernels]
    assert sorted(kinds) == [
        *("attention", "attention_gradient", "attention_gradient", "pointwise", "reduction")
    ]
    summed = kernels[kinds.index("pointwise")]
    (given,) = summed.operands
    assert [*given.type.get_shape()] == [3, 1, 128, 384]  # type: ignore
    assert len(summed.outputs) == 2
