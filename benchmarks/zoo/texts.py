"""Models of text in the zoo, with their peers of transformers."""

from typing import Any

import numpy as np

from benchmarks.zoo.cached import text_step
from benchmarks.zoo.entry import Call, Decoder, Entry, Sizes, Tensors, tokens_of


def _logits(module: Any, tensors: Tensors) -> Tensors:
    return {"logits": module(input_ids=tensors["tokens"], use_cache=False).logits}


def _last_logits(module: Any, tensors: Tensors) -> Any:
    return _logits(module, tensors)["logits"][:, -1]


WHOLE = Call("whole", tokens_of, _logits)
WRITES = Decoder(
    Call("prefill", tokens_of, lambda *call: {"logits": _last_logits(*call)}),
    _last_logits,
    step=lambda module, tensors: text_step(module, tensors["tokens"]),
)


def _gpt2(sizes: Sizes) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=sizes["VOCAB"],
        n_positions=sizes["POSITIONS"],
        n_embd=sizes["D"],
        n_layer=sizes["LAYERS"],
        n_head=sizes["HEADS"],
    )
    return GPT2LMHeadModel(config)


def _of_llama(sizes: Sizes) -> dict[str, Any]:
    """What the configurations of Llama's kind have in common."""
    return {
        "vocab_size": sizes["VOCAB"],
        "hidden_size": sizes["D"],
        "intermediate_size": sizes["FF"],
        "num_hidden_layers": sizes["LAYERS"],
        "num_attention_heads": sizes["HEADS"],
        "num_key_value_heads": sizes["KV"],
        "head_dim": sizes["HD"],
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }


def _rope(theta: float) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": theta}


def _smollm2(sizes: Sizes) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(**_of_llama(sizes), rms_norm_eps=1e-5, rope_parameters=_rope(1e5))
    return LlamaForCausalLM(config)


def _qwen3(sizes: Sizes) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(**_of_llama(sizes), rms_norm_eps=1e-6, rope_parameters=_rope(1e6))
    return Qwen3ForCausalLM(config)


def _gemma2(sizes: Sizes) -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    config = Gemma2Config(
        **_of_llama(sizes),
        sliding_window=sizes["WINDOW"],
        query_pre_attn_scalar=sizes["HD"],
        rope_parameters=_rope(1e4),
        attn_implementation="eager",  # others leave out the soft caps of scores
    )
    return Gemma2ForCausalLM(config)


def _bert(sizes: Sizes) -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=sizes["VOCAB"],
        hidden_size=sizes["D"],
        num_hidden_layers=sizes["LAYERS"],
        num_attention_heads=sizes["HEADS"],
        intermediate_size=4 * sizes["D"],
        max_position_embeddings=sizes["POSITIONS"],
    )
    return BertModel(config)


def _pair_of_sentences(sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Tokens of two sentences, and padding."""
    place = np.arange(sizes["S"], dtype=np.int32)[None]
    length, second = sizes["S"] * 3 // 4, sizes["S"] // 3
    return {
        **tokens_of(sizes, generator),
        "mask": (place < length).astype(np.int32),
        "kinds": (place >= second).astype(np.int32),
    }


def _bert_results(module: Any, tensors: Tensors) -> Tensors:
    found = module(
        input_ids=tensors["tokens"],
        attention_mask=tensors["mask"],
        token_type_ids=tensors["kinds"],
    )
    return {"hidden": found.last_hidden_state, "pooled": found.pooler_output}


TIED = ("lm_head.weight",)
"""The table of tokens once more."""

SMALL = {"D": 32, "LAYERS": 2, "VOCAB": 97, "S": 12}
SMALL_LLAMA = {**SMALL, "HEADS": 4, "KV": 2, "HD": 16, "FF": 48, "ROOM": 24}

TEXTS = (
    Entry(
        "gpt2",
        "gpt2.mgn",
        {"D": 768, "HEADS": 12, "LAYERS": 12, "VOCAB": 50257, "POSITIONS": 1024, "S": 128},
        {**SMALL, "HEADS": 4, "POSITIONS": 24},
        _gpt2,
        WHOLE,
        WRITES,
        unread=TIED,
    ),
    Entry(
        "smollm2",
        "smollm2.mgn",
        {"D": 576, "HEADS": 9, "KV": 3, "HD": 64, "FF": 1536, "LAYERS": 30, "VOCAB": 49152}
        | {"S": 128, "ROOM": 1024},
        SMALL_LLAMA,
        _smollm2,
        WHOLE,
        WRITES,
        unread=TIED,
    ),
    Entry(
        "qwen3",
        "qwen3.mgn",
        {"D": 1024, "HEADS": 16, "KV": 8, "HD": 128, "FF": 3072, "LAYERS": 28, "VOCAB": 151936}
        | {"S": 128, "ROOM": 1024},
        SMALL_LLAMA,
        _qwen3,
        WHOLE,
        WRITES,
        unread=TIED,
    ),
    Entry(
        "gemma2",
        "gemma2.mgn",
        {"D": 2304, "HEADS": 8, "KV": 4, "HD": 256, "FF": 9216, "LAYERS": 26, "VOCAB": 256000}
        | {"S": 128, "WINDOW": 4096, "ROOM": 4096},
        SMALL_LLAMA | {"WINDOW": 5},
        _gemma2,
        WHOLE,
        WRITES,
        unread=TIED,
    ),
    Entry(
        "bert",
        "bert.mgn",
        {"D": 768, "HEADS": 12, "LAYERS": 12, "VOCAB": 30522, "POSITIONS": 512, "S": 128},
        {**SMALL, "HEADS": 4, "POSITIONS": 24},
        _bert,
        Call("bert", _pair_of_sentences, _bert_results),
    ),
)
