"""What config.json says of a model, and what of it a program takes, refuses or leaves."""

import json
import os
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mgn
from mgn.commands.generate import main
from mgn.runtime.weights import save_params
from mgn.text.configuration import UNCHANGED, configured, ending_ids
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
        ({"hidden_act": None}, "hidden_act is null"),
        ({"attention_bias": True}, "attention_bias is true, and the program has no const"),
        ({"model_type": "gemma"}, 'model_type is "gemma"'),
        ({"vocab_size": 300.5}, "vocab_size is 300.5, and the program wants a whole number"),
        ({"rms_norm_eps": float("nan")}, "rms_norm_eps is NaN, and the program wants a finite"),
        ({"rope_theta": 10**400}, "rope_theta is 1000.*, and the program wants a finite number"),
    ],
)
def test_a_folder_of_a_model_that_the_program_does_not_compute_is_refused(
    folder: Path, changes: dict[str, Any], message: str
) -> None:
    make_folder(folder, **changes)
    outcome = generated(folder)
    assert outcome.status == 1 and not outcome.stdout
    assert re.search(message, outcome.stderr) and "config.json" in outcome.stderr


def test_what_changes_a_model_is_refused_by_name_and_what_changes_nothing_is_not(
    tmp_path: Path,
) -> None:
    text = "graph g(x: f32[2]) { return y = x * 2.0 }"
    bare = mgn.parse(text)
    answering = mgn.parse("const " + ", ".join(f"{name} = 7" for name in UNCHANGED) + "\n" + text)

    def write(name: str, value: Any, inside: str | None) -> None:
        settings = {name: value} if inside is None else {inside: {name: value}}
        (tmp_path / "config.json").write_text(json.dumps(settings))

    for name, plain in UNCHANGED.items():
        for inside in (None, "text_config"):
            for value in (None, [], *plain, *([item] * 3 for item in plain)):
                write(name, value, inside)
                configured(bare, tmp_path, set())
            for value in ("another", 0.5, 3, [*plain, "another"]):
                write(name, value, inside)
                with pytest.raises(mgn.MgnError, match=f"{name} is .*no const {name}"):
                    configured(bare, tmp_path, set())
        write(name, 3, None)
        assert configured(answering, tmp_path, set())[1] == {name: 3}


def test_sizes_are_those_of_the_configuration(tmp_path: Path) -> None:
    module = mgn.parse("graph g(x: f32[2]) { return y = x }")
    wanted = {"a", "c", "d", "g", "missing"}
    said = {"a": 3, "b": 1.5, "c": 2.0, "d": True, "e": "7", "f": {"g": 5e5, "a": 9}, "h": [1]}
    (tmp_path / "config.json").write_text(json.dumps(said))
    for path in (tmp_path, tmp_path / "tokenizer.json"):
        assert configured(module, path, wanted)[1] == {"a": 3, "c": 2, "d": 1, "g": 500_000}
    assert configured(module, tmp_path / "nowhere" / "tokenizer.json", wanted)[1] == {}
    for text in ("{", "[]", "null"):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(mgn.MgnError, match=r"cannot read .*config\.json"):
            configured(module, tmp_path, wanted)


def test_a_text_ends_at_what_the_folder_numbers(tmp_path: Path) -> None:
    file = tmp_path / "generation_config.json"
    for said, found in ((2, {2}), ([2, 7], {2, 7}), (None, set()), ([], set())):
        file.write_text(json.dumps({"eos_token_id": said}))
        assert ending_ids(tmp_path) == found
    for wrong in ("</s>", ["</s>", 2], 2.0, True):
        file.write_text(json.dumps({"eos_token_id": wrong}))
        with pytest.raises(mgn.MgnError, match="which numbers no token"):
            ending_ids(tmp_path)


def test_a_list_is_what_a_text_of_the_program_repeats(tmp_path: Path) -> None:
    module = mgn.parse("""
        const layer_types = "near, far"
        graph g(x: f32[2]) { return y = x * 2.0 }
    """)
    for nothing in ([], None):
        (tmp_path / "config.json").write_text(json.dumps({"layer_types": nothing}))
        with pytest.raises(mgn.MgnError, match='written for "near, far"'):
            configured(module, tmp_path, set())
    for count in range(1, 5):
        kinds = ["near" if at % 2 == 0 else "far" for at in range(count)]
        (tmp_path / "config.json").write_text(json.dumps({"layer_types": kinds}))
        configured(module, tmp_path, set())
        for at in range(count):
            others = [*kinds[:at], "other", *kinds[at + 1 :]]
            (tmp_path / "config.json").write_text(json.dumps({"layer_types": others}))
            with pytest.raises(mgn.MgnError, match='written for "near, far"'):
                configured(module, tmp_path, set())


def test_a_name_that_objects_of_the_file_give_several_values_is_refused_where_it_is_wanted(
    tmp_path: Path,
) -> None:
    module = mgn.parse("const width = 4\ngraph g(x: f32[width]) { return y = x }")
    other = mgn.parse("const wide = 4\ngraph g(x: f32[wide]) { return y = x }")
    parts = {"text_config": {"width": 8}, "vision_config": {"inner": {"width": 16}}}
    (tmp_path / "config.json").write_text(json.dumps(parts))
    with pytest.raises(mgn.MgnError, match=r"width is (8 and 16|16 and 8)"):
        configured(module, tmp_path, set())
    assert configured(other, tmp_path, set())[1] == {}
    (tmp_path / "config.json").write_text(json.dumps(parts | {"width": 2}))
    assert configured(module, tmp_path, set())[1] == {"width": 2}


def test_a_sliding_window_that_is_not_used_is_no_matter(tmp_path: Path) -> None:
    module = mgn.parse("graph g(x: f32[2]) { return y = x }")
    settings: dict[str, Any] = {"sliding_window": 4096, "use_sliding_window": False}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    configured(module, tmp_path, set())
    (tmp_path / "config.json").write_text(json.dumps(settings | {"use_sliding_window": True}))
    with pytest.raises(mgn.MgnError, match="sliding_window is 4096"):
        configured(module, tmp_path, set())


PUBLISHED = {
    "llama.mgn": "LlamaForCausalLM",
    "models/smollm2.mgn": "LlamaForCausalLM",
    "models/qwen3.mgn": "Qwen3ForCausalLM",
    "models/gemma2.mgn": "Gemma2ForCausalLM",
    "models/gpt2.mgn": "GPT2LMHeadModel",
}
"""Programs of the examples, and the models of transformers whose folders they take."""


ONE_TABLE = ("models/gemma2.mgn", "models/gpt2.mgn")
"""Those that have no second table of words."""


@pytest.mark.parametrize(
    ("name", "tied"),
    [(name, tied) for name in PUBLISHED for tied in (True, False) if tied or name not in ONE_TABLE],
)
def test_a_folder_that_transformers_wrote_gives_the_tokens_of_transformers(
    tmp_path: Path, name: str, tied: bool
) -> None:
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    model_class = getattr(transformers, PUBLISHED[name])
    sizes = {
        "vocab_size": 300,
        "hidden_size": 24,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 6 if name == "models/smollm2.mgn" else 8,
        "max_position_embeddings": 64,
        "rms_norm_eps": 3e-5,
        "tie_word_embeddings": tied,
        "initializer_range": 0.3,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    if name == "models/gemma2.mgn":
        sizes |= {"query_pre_attn_scalar": 11, "sliding_window": 9, "attn_logit_softcapping": 3.0}
        sizes |= {"final_logit_softcapping": 7.0, "rms_norm_eps": 1e-4}
    if name == "models/gpt2.mgn":
        sizes = {"vocab_size": 300, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 64}
        sizes |= {"initializer_range": 0.3, "layer_norm_epsilon": 1e-3, "eos_token_id": 2}
        sizes |= {"n_inner": 40}
    torch.manual_seed(5)
    config = model_class.config_class(**sizes, attn_implementation="eager")  # heeds all soft caps
    model = model_class(config).eval()
    model.generation_config.eos_token_id = None
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").exists()
    prompt = [int(item) for item in np.random.default_rng(2).integers(3, 300, 17)]
    options: dict[str, Any] = {"max_new_tokens": 20, "do_sample": False, "pad_token_id": 0}
    found = model.generate(torch.tensor([prompt]), **options)[0, len(prompt) :].tolist()
    module = mgn.parse_file(ROOT / "examples" / name)
    known = module.dimensions_of("prefill") | module.dimensions_of("decode")
    module, dims = configured(module, tmp_path, known)
    dims |= {"S": len(prompt)} | ({} if name == "models/gpt2.mgn" else {"ROOM": 48})
    lm = mgn.compile(module, ["prefill", "decode"], dims=dims, device=DEVICE)
    assert lm.load_params(tmp_path) == 0
    assert list(mgn.generate(lm, prompt, tokens=20)) == found


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


@pytest.mark.parametrize("said", [None, [4, 4]])
def test_what_is_off_or_a_list_is_no_size(tmp_path: Path, said: object) -> None:
    module = mgn.parse("const sliding_window = 8\ngraph g(x: f32[sliding_window]) { return y = x }")
    (tmp_path / "config.json").write_text(json.dumps({"sliding_window": said}))
    with pytest.raises(mgn.MgnError, match="sliding_window is null or a list"):
        configured(module, tmp_path, set())
