"""Kernels that read what is an output in any case, as the caches of a decoder are."""

import pytest

import mgn
from benchmarks.cached_decoding import program_text
from mgn.dialects.fusion import FusedKernelOp, KernelKind


@pytest.mark.parametrize("precision", ["f32", "tf32", "bf16"])
def test_attention_reads_the_cache_as_it_was_written(precision: str) -> None:
    """No kernel copies what of a cache is rounded: a copy of all rows for one that is new."""
    program = mgn.parse(program_text(2, 512))
    found = mgn.optimize(program, graph="decode", device="nvidia-h200", precision=precision)
    kernels = [op for op in found.module.walk() if isinstance(op, FusedKernelOp)]
    attending = [op for op in kernels if op.kind.data == KernelKind.ATTENTION]
    updates = {value for op in kernels if op.kind.data == KernelKind.UPDATE for value in op.outputs}
    assert len(attending) == 2
    for kernel in attending:
        assert len(updates.intersection(kernel.inputs)) == 2


ADAM = """graph g(w: f32[256, 256], d: f32[256, 256], m: f32[256, 256], v: f32[256, 256]) {
  m2 = 0.9 * m + 0.1 * d
  v2 = 0.99 * v + 0.01 * d * d
  return w2 = w - m2 / (sqrt(v2) + 0.001), m2, v2
}"""


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_what_is_computed_from_outputs_is_written_with_them(device: str) -> None:
    found = mgn.optimize(mgn.parse(ADAM), device=device)
    assert len(found.report.kernels) == 1
