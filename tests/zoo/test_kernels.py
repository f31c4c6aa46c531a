"""Models of the zoo are cut into as few kernels as a person would write."""

import mgn
from benchmarks.zoo.entry import MODELS
from mgn.dialects.fusion import KernelKind

LAYERS = 2


def test_each_norm_and_softmax_of_a_transformer_is_one_kernel() -> None:
    """A search within limits once kept no cut that reads what a product wrote: the sums of norms,
    and the largest elements of rows, were kernels of their own.
    """
    program = mgn.parse_file(MODELS / "vit.mgn")
    report = mgn.optimize(program, dims={"LAYERS": LAYERS}, device="cpu").report
    kinds = [kernel.kind for kernel in report.kernels]
    assert kinds.count(KernelKind.REDUCTION) == 3 * LAYERS + 1
    assert kinds.count(KernelKind.CONTRACTION) == 6 * LAYERS + 2
