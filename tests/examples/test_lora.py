"""LoRA trains factors alone, and merged into the weights they are the same model."""

import numpy as np
import pytest

import mgn
from examples.lora.merge import merged
from mgn.training.step.step import StepOptions
from tests.conftest import ROOT
from tests.examples.interpreted import Runs, Steps

LORA = ROOT / "examples" / "lora" / "lora.mgn"
PLAIN = ROOT / "examples" / "models" / "smollm2.mgn"
SIZES = {"D": 16, "HEADS": 2, "KV": 1, "HD": 8, "FF": 20, "LAYERS": 1, "VOCAB": 20, "S": 6}


def test_factors_alone_are_trained_and_merged_into_the_weights() -> None:
    factored, plain = mgn.parse_file(LORA), mgn.parse_file(PLAIN)
    own, options = SIZES | {"B": 2}, StepOptions(trained="lora_")
    steps = Steps(factored, "finetune", mgn.AdamW(0.02), own | {"RANK": 2}, options=options)
    begun = dict(steps.params)
    assert len(steps.trained) == 8
    assert all(".lora_" in name for name in steps.trained)
    base = {name: value for name, value in begun.items() if ".lora_" not in name}
    text = np.random.default_rng(0).integers(0, 20, (2, 7), np.int32)
    losses = [steps.step(text=text) for _ in range(10)]
    assert losses[-1] < losses[0] - 0.1
    factors = {name: steps.params[name] for name in steps.trained}
    assert all(steps.params[name] is value for name, value in base.items())

    logits = Runs(plain, own, merged(base, factors, 2.0))("whole", tokens=text[:, :-1])["logits"]
    wide = logits.astype(np.float64)
    chosen = np.take_along_axis(wide, text[:, 1:, None], axis=2)[..., 0]
    loss = (np.log(np.exp(wide).sum(axis=2)) - chosen).mean()
    np.testing.assert_allclose(loss, steps.step(text=text), rtol=1e-5)


def test_factors_without_their_weight_are_refused() -> None:
    base = {"a.weight": np.zeros((2, 2), np.float32)}
    factor = np.zeros((1, 2), np.float32)
    for name in ("b.lora_A.weight", "a.lora_A.weight", "a.weight"):
        with pytest.raises(mgn.MgnError, match=f"'{name}' is no factor"):
            merged(base, {name: factor}, 1.0)
