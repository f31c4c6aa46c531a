"""Prompts of many lengths go through a few programs, with caches and all."""

import numpy as np
import pytest

import mgn
from mgn.sized_executable import SizedExecutable
from tests.conftest import ROOT
from tests.whole_programs.test_states import DEVICE

SMALL = {"D": 16, "HEADS": 4, "KV": 2, "HD": 4, "FF": 24, "LAYERS": 1, "VOCAB": 61, "ROOM": 24}


def test_a_prompt_of_any_length_gives_the_tokens_that_it_gives_one_by_one() -> None:
    module = mgn.parse_file(ROOT / "examples" / "models" / "smollm2.mgn")
    graphs = ["prefill", "decode"]
    dims = {**SMALL, "S": range(1, 13)}
    lm = mgn.compile(module, graph=graphs, dims=dims, buckets=2, device=DEVICE, seed=3)
    prefill = lm["prefill"]
    assert isinstance(prefill, SizedExecutable) and prefill.sizes.buckets[-1] == 12
    plain = mgn.compile(module, graph=graphs, dims={**SMALL, "S": 13}, device=DEVICE, seed=3)
    rng = np.random.default_rng(0)
    for length in (7, 3, 12, 2):
        prompt = rng.integers(0, 61, length).tolist()
        tokens = list(mgn.generate(lm, prompt, tokens=5))
        assert tokens == list(mgn.generate(plain, prompt, tokens=5))
        assert lm.state["position"] == plain.state["position"]
        cache = "model.layers.0.self_attn.k"
        assert np.allclose(lm.state[cache], plain.state[cache], atol=1e-5)
    assert set(prefill.programs) <= set(prefill.sizes.buckets)
    with pytest.raises(mgn.MgnError, match="the prompt has 13 tokens"):
        mgn.generate(lm, list(range(13)), tokens=1)
