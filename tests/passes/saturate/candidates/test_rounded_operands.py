"""Products whose operands are rounded run on the device's matrix unit, however they are made."""

import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn.dialects.fusion import FusedKernelOp, KernelKind

BLOCK = """  param g{i}: f32[576] = ones()
  param u{i}: f32[1536, 576] = normal(std = 0.02)
  param d{i}: f32[576, 1536] = normal(std = 0.02)
  h{i} = rms_norm(x, g{i}, eps = 0.00001)
  x = x + silu(h{i} @ u{i}.T) @ d{i}.T
"""


def trained(blocks: int) -> str:
    """Blocks of a norm and two layers, with the gradients of their weights."""
    names = [f"{name}{i}" for i in range(blocks) for name in "gud"]
    found = ", ".join(f"d_{name}" for name in names)
    body = "".join(BLOCK.replace("{i}", str(i)) for i in range(blocks))
    return f"""graph g(x0: f32[8, 512, 576]) {{
  x = x0
{body}  {found} = grad(sum(x * x), [{", ".join(names)}])
  return {found}
}}"""


def products(module: ModuleOp) -> list[FusedKernelOp]:
    return [
        op
        for op in module.walk()
        if isinstance(op, FusedKernelOp) and op.kind.data == KernelKind.CONTRACTION
    ]


@pytest.mark.parametrize("precision", ["bf16", "tf32"])
def test_all_products_of_a_training_pass_run_on_the_unit(precision: str) -> None:
    found = mgn.optimize(mgn.parse(trained(2)), device="nvidia-h200", precision=precision)
    kernels = products(found.module)
    assert len(kernels) == 12
    for kernel in kernels:
        assert kernel.arranged is not None and "matrix" in kernel.arranged.entries.data
