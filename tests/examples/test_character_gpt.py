"""The character GPT learns, and its cache gives the logits that its training graph has."""

import json

import numpy as np

import mgn
from mgn.training.data.texts import windows_of
from tests.conftest import ROOT
from tests.examples.interpreted import Runs, Steps

FOLDER = ROOT / "examples" / "character_gpt"
ROWS = 12
SIZES = {"D": 16, "HEADS": 2, "LAYERS": 1, "S": ROWS}


def vocabulary() -> dict[str, int]:
    path = FOLDER / "tokenizer.json"
    return json.loads(path.read_text(encoding="utf-8"))["model"]["vocab"]


def test_the_tokenizer_has_each_character_of_the_texts() -> None:
    known = vocabulary()
    paths = [*FOLDER.glob("*.txt"), *(ROOT / "examples" / "lora").glob("*.txt")]
    assert len(paths) == 4
    assert {*known} == {*"".join(path.read_text(encoding="utf-8") for path in paths)}
    assert [*known.values()] == [*range(63)]
    assert "VOCAB = 63," in (FOLDER / "character_gpt.mgn").read_text()
    for name in ("shakespeare.txt", "held_out.txt"):
        assert (FOLDER / name).stat().st_size < 500_000


def test_it_learns_and_its_cache_gives_the_losses_of_training() -> None:
    known = vocabulary()
    text = (FOLDER / "shakespeare.txt").read_text(encoding="utf-8")[:200]
    windows = windows_of(np.array([known[item] for item in text], np.int32), ROWS + 1)
    program = mgn.parse_file(FOLDER / "character_gpt.mgn")
    steps = Steps(program, "train", mgn.AdamW(0.01), SIZES | {"B": 2})
    losses = [steps.step(text=windows[index : index + 2]) for index in range(30)]
    assert np.mean(losses[-5:]) < 0.8 * losses[0]

    runs = Runs(program, SIZES | {"SEEN": ROWS, "ROOM": 16, "S": 8}, dict(steps.params))
    rows = windows[:2]
    logits = np.array([decoded(runs, row[:-1], 1) for row in rows], np.float64)
    chosen = np.take_along_axis(logits, rows[:, 1:, None], axis=2)[..., 0]
    own = np.log(np.exp(logits).sum(axis=2)) - chosen
    np.testing.assert_allclose(own.mean(), steps.step(text=rows), rtol=1e-5)
    np.testing.assert_allclose(decoded(runs, rows[0, :-1], 5), logits[0, 4:], rtol=1e-4, atol=1e-5)


def decoded(runs: Runs, tokens: np.ndarray, prompt: int) -> list[np.ndarray]:
    """The logits behind a prompt and behind each token after it."""
    runs.states = {}
    padded = np.pad(tokens[:prompt], (0, 8 - prompt))[None]
    found = [runs("prefill", tokens=padded, length=np.array(prompt, np.int32))["logits"][0]]
    return [*found, *(runs("decode", token=item[None])["logits"][0] for item in tokens[prompt:])]
