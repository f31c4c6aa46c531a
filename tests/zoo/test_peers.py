"""Small models of the zoo beside those of torchvision and transformers, whose weights they load.

Full sizes: `python -m benchmarks.zoo`.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.zoo.entry import MODELS, Entry
from benchmarks.zoo.table import ENTRIES


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_a_small_model_computes_what_its_peer_computes(entry: Entry) -> None:
    for package in ("torch", *entry.packages):
        pytest.importorskip(package)
    from benchmarks.zoo.trial import TOLERANCE, tried

    trial = tried(entry, small=True)
    assert trial.error <= TOLERANCE, trial.errors
    assert trial.unknown == []


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ("attn_logit_softcapping = 50.0", "attn_logit_softcapping = 60.0"),
        ("final_logit_softcapping = 30.0", "final_logit_softcapping = 31.0"),
        ("rope_theta = 10000.0", "rope_theta = 10100.0"),
        ("if i % 2 == 0 {", "if i % 2 == 1 {"),
    ],
)
def test_another_model_is_told_apart(own: str, other: str, tmp_path: Path) -> None:
    """The comparison is not blind: small changes of Gemma 2 show in it."""
    for package in ("torch", "transformers"):
        pytest.importorskip(package)
    from benchmarks.zoo.trial import TOLERANCE, tried

    entry = next(entry for entry in ENTRIES if entry.name == "gemma2")
    text = entry.path.read_text()
    assert text.count(own) == 1
    shutil.copy(MODELS / "parts.mgn", tmp_path)
    changed = tmp_path / "changed.mgn"
    changed.write_text(text.replace(own, other))
    trial = tried(replace(entry, file=str(changed)), small=True)
    assert trial.errors["whole.logits"] > 2 * TOLERANCE


DECODERS = [entry for entry in ENTRIES if entry.decoder is not None]


@pytest.mark.parametrize("entry", DECODERS, ids=lambda entry: entry.name)
def test_a_step_with_a_cache_gives_what_the_peer_computes_anew(entry: Entry) -> None:
    torch = pytest.importorskip("torch")
    for package in entry.packages:
        pytest.importorskip(package)
    from benchmarks.zoo.trial import TOLERANCE, redrawn, relative_error, tensors_of

    decoder = entry.decoder
    assert decoder is not None and decoder.step is not None
    sizes = entry.sizes(small=True)
    torch.manual_seed(0)
    peer = redrawn(entry.module(sizes).eval())
    first = decoder.first.inputs(sizes, np.random.default_rng(0))
    read = first.get("tokens", np.full((1, 1), decoder.start))
    step = decoder.step(peer, tensors_of(first, wide=False))
    more = {**first, "tokens": np.concatenate([read, step.arguments[0].numpy()], axis=1)}
    with torch.inference_mode():
        found = step.module(*step.arguments)[0][:, -1]
        wanted = decoder.logits(peer, tensors_of(more, wide=False))
    assert relative_error(found.numpy(), wanted.numpy()) <= TOLERANCE
