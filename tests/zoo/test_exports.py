"""A small model gets the same kernels written by hand, through ONNX and through torch.export.

All models: `python -m benchmarks.zoo.exports`.
"""

import pytest

from benchmarks.zoo.table import ENTRIES


@pytest.mark.parametrize("name", ["mlp", "lenet", "vit", "smollm2", "qwen3"])
def test_exports_of_a_small_model_get_the_kernels_of_the_one_by_hand(name: str) -> None:
    entry = next(entry for entry in ENTRIES if entry.name == name)
    for package in ("torch", "onnxscript", *entry.packages):
        pytest.importorskip(package)
    from benchmarks.zoo.exports import MORE, cuts_of

    cuts, remarks = cuts_of(entry, small=True)
    assert not remarks
    assert set(cuts) == {"by hand", "ONNX", "torch.export"}
    for cut in cuts.values():
        assert cut.kernels <= MORE * cuts["by hand"].kernels
        assert cut.seconds <= MORE * cuts["by hand"].seconds
