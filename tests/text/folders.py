"""A folder of Hugging Face, made here: a Llama of random weights in bf16, its configuration, and a
tokenizer of bytes that was trained on a few lines.

Out: the folder, and `expected_logits`, the model in NumPy and f64.
"""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from mgn.runtime.weights import save_params

CONFIG = {
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 300,
    "rope_theta": 10000.0,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
LINES = ["It was a dark and stormy night; the rain fell in torrents — déjà vu, 雨夜 🌧."] * 3

Weights = dict[str, np.ndarray]


def make_weights() -> Weights:
    """Random weights under Llama's names."""
    dice = np.random.default_rng(11)
    d, ff, kv = 16, 24, 2 * 4
    shapes = {"self_attn.q_proj": (d, d), "self_attn.k_proj": (kv, d), "self_attn.v_proj": (kv, d)}
    shapes |= {"self_attn.o_proj": (d, d), "mlp.gate_proj": (ff, d), "mlp.up_proj": (ff, d)}
    shapes |= {"mlp.down_proj": (d, ff)}
    found: dict[str, Any] = {"model.embed_tokens.weight": dice.standard_normal((300, d))}
    for name, shape in shapes.items():
        found[f"model.layers.0.{name}.weight"] = dice.standard_normal(shape) * 0.4
    for name in ("layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"):
        found[f"model.{name}.weight"] = 1 + 0.1 * dice.standard_normal(d)
    return {name: value.astype(ml_dtypes.bfloat16) for name, value in found.items()}


def make_folder(folder: Path, **changes: Any) -> Path:
    """The folder, but for the tokenizer."""
    folder.mkdir(exist_ok=True)
    save_params(folder / "model.safetensors", make_weights())
    (folder / "config.json").write_text(json.dumps(CONFIG | changes))
    return folder


def make_tokenizer(folder: Path) -> Any:
    """A tokenizer of bytes, written to the folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=letters, show_progress=False)
    tokenizer.train_from_iterator(LINES, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def expected_logits(weights: Weights, ids: list[int]) -> np.ndarray:
    """The logits of the token after the last of `ids`."""
    w = {name.removeprefix("model."): value.astype(np.float64) for name, value in weights.items()}
    x = w["embed_tokens.weight"][ids]
    layer = {name.removeprefix("layers.0."): value for name, value in w.items()}
    h = _norm(x, layer["input_layernorm.weight"])
    q, k, v = (h @ layer[f"self_attn.{name}_proj.weight"].T for name in "qkv")
    q, k, v = _rotated(q, 4), _rotated(k, 2), v.reshape(-1, 2, 4).transpose(1, 0, 2)
    scores = q @ np.repeat(k, 2, 0).transpose(0, 2, 1) / 2
    scores += np.triu(np.full(scores.shape[1:], -np.inf), 1)
    weights_of = np.exp(scores - scores.max(-1, keepdims=True))
    a = weights_of / weights_of.sum(-1, keepdims=True) @ np.repeat(v, 2, 0)
    x = x + a.transpose(1, 0, 2).reshape(len(ids), -1) @ layer["self_attn.o_proj.weight"].T
    h = _norm(x, layer["post_attention_layernorm.weight"])
    gate = h @ layer["mlp.gate_proj.weight"].T
    up = gate / (1 + np.exp(-gate)) * (h @ layer["mlp.up_proj.weight"].T)
    x = x + up @ layer["mlp.down_proj.weight"].T
    return _norm(x, w["norm.weight"])[-1] @ w["embed_tokens.weight"].T


def _norm(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * g


def _rotated(x: np.ndarray, heads: int) -> np.ndarray:
    """Heads first, rotated by their places."""
    x = x.reshape(len(x), heads, 4).transpose(1, 0, 2)
    angles = np.arange(x.shape[1])[:, None] * 10000.0 ** (-np.arange(2) / 2)
    first, second = x[..., :2], x[..., 2:]
    cos, sin = np.cos(angles), np.sin(angles)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], -1)
