"""A small model gets the same kernels written by hand, through ONNX and through torch.export.

All models: `python -m benchmarks.zoo.exports`.
"""

import pytest

from benchmarks.zoo.table import ENTRIES

ON_A_GPU = "nvidia-h200"

CASES = (
    *((name, "cpu", "f32") for name in ("mlp", "lenet", "vit", "smollm2", "qwen3", "resnet18")),
    *((name, ON_A_GPU, "f32") for name in ("gpt2", "vit")),
    *((name, ON_A_GPU, "tf32") for name in ("bert", "smollm2")),
    ("gpt2", ON_A_GPU, "bf16"),
)


@pytest.mark.parametrize(("name", "device", "precision"), CASES)
def test_exports_of_a_small_model_get_the_kernels_of_the_one_by_hand(
    name: str, device: str, precision: str
) -> None:
    entry = next(entry for entry in ENTRIES if entry.name == name)
    for package in ("torch", "onnxscript", *entry.packages):
        pytest.importorskip(package)
    from benchmarks.zoo.exports import MORE, cuts_of

    cuts, remarks = cuts_of(entry, True, device, precision)
    assert not remarks
    assert set(cuts) == {"by hand", "ONNX", "torch.export"}
    for cut in cuts.values():
        assert cut.excess_over(cuts["by hand"]) <= MORE
