"""What config.json says of a model, and what of it a program takes, refuses or leaves."""

import json
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mgn
from mgn.commands.generate import main
from mgn.runtime.weights import save_params
from mgn.text.configuration import configured
from tests.conftest import ROOT, run_in_process
from tests.text.folders import make_folder, make_tokenizer, make_weights

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")
LLAMA = ROOT / "examples" / "llama.mgn"


def generated(folder: Path, *options: str) -> Any:
    """What the command makes of a folder."""
    run = [str(LLAMA), "--params", str(folder), "--prompt", "It was a dark", "--tokens", "8"]
    return run_in_process(main, [*run, "--dim", "ROOM=24", "--device", DEVICE, *options])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of Hugging Face with a tokenizer."""
    pytest.importorskip("tokenizers")
    make_tokenizer(make_folder(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_act": "gelu"}, 'hidden_act is "gelu", and the program is written for "silu"'),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, 'rope_type is "llama3"'),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, 'rope_type is "linear"'),
        ({"attention_bias": True}, "attention_bias is true"),
        ({"vocab_size": 300.5}, "vocab_size is 300.5, and the program wants a whole number"),
    ],
)
def test_a_folder_of_a_model_that_the_program_does_not_compute_is_refused(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    make_folder(folder, **changes)
    outcome = generated(folder)
    assert outcome.status == 1 and not outcome.stdout
    assert message in outcome.stderr and "config.json" in outcome.stderr


def test_what_the_program_agrees_with_or_does_not_name_is_no_matter(folder: Path) -> None:
    expected = generated(folder)
    assert expected.status == 0, expected.stderr
    make_folder(
        folder,
        hidden_act="silu",
        rope_scaling=None,
        rope_parameters={"rope_type": "default"},
        attention_bias=False,
        head_dim=4,
        torch_dtype="bfloat16",
        quantization={"group_size": 64},
    )
    assert generated(folder).stdout == expected.stdout


def test_numbers_of_the_configuration_take_the_place_of_consts_that_are_floats(
    folder: Path,
) -> None:
    usual = generated(folder)
    make_folder(folder, rms_norm_eps=0.3)
    other = generated(folder)
    assert other.status == 0 and usual.stdout != other.stdout
    text = folder / "other.mgn"
    text.write_text(LLAMA.read_text().replace("rms_norm_eps = 1e-5", "rms_norm_eps = 0.3"))
    make_folder(folder)
    (folder / "config.json").write_text(
        (folder / "config.json").read_text().replace('"rms_norm_eps"', '"unknown"')
    )
    run = [str(text), "--params", str(folder), "--prompt", "It was a dark", "--tokens", "8"]
    expected = run_in_process(main, [*run, "--dim", "ROOM=24", "--device", DEVICE])
    assert expected.status == 0 and other.stdout == expected.stdout


def test_heads_may_be_wider_than_their_share_of_the_hidden_size(folder: Path) -> None:
    dice = np.random.default_rng(3)
    weights = make_weights()
    for name, rows in (("q", 4), ("k", 2), ("v", 2)):
        wide = dice.standard_normal((rows * 6, 16)).astype(ml_dtypes.bfloat16)
        weights[f"model.layers.0.self_attn.{name}_proj.weight"] = wide
    back = dice.standard_normal((16, 24)).astype(ml_dtypes.bfloat16)
    weights["model.layers.0.self_attn.o_proj.weight"] = back
    make_folder(folder, head_dim=6)
    save_params(folder / "model.safetensors", weights)
    outcome = generated(folder)
    assert outcome.status == 0, outcome.stderr
    make_folder(folder)
    save_params(folder / "model.safetensors", weights)
    refused = generated(folder)
    assert refused.status == 1 and "not [16, 16]" in refused.stderr


def test_a_program_gets_sizes_and_floats_and_keeps_what_a_configuration_does_not_say(
    tmp_path: Path,
) -> None:
    module = mgn.parse("""
        const width = 4, eps = 1e-5, other = 2.0, act = "relu"
        graph g[S = 2](x: f32[S, width]) { return y = x * eps + other }
    """)
    settings = {"width": 8.0, "eps": 1, "act": "relu", "S": 3, "far": "x", "inner": {"other": 0.5}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    found, sizes = configured(module, tmp_path, {"S"})
    assert sizes == {"width": 8, "S": 3}
    assert found.consts["eps"] == 1e-5
    exe = mgn.compile(found, dims=sizes, device=DEVICE)
    assert (exe(x=np.full((3, 8), 2, np.float32))["y"] == 2.5).all()
    usual = mgn.compile(module, dims=sizes, device=DEVICE)
    assert (usual(x=np.zeros((3, 8), np.float32))["y"] == 2.0).all()
