"""Models of sound in the zoo, with their peers of transformers."""

from typing import Any

import numpy as np

from benchmarks.zoo.cached import sound_step
from benchmarks.zoo.entry import Call, Decoder, Entry, Sizes, Tensors, tokens_of


def _whisper(sizes: Sizes) -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=sizes["VOCAB"],
        d_model=sizes["D"],
        encoder_layers=sizes["LAYERS"],
        decoder_layers=sizes["LAYERS"],
        encoder_attention_heads=sizes["HEADS"],
        decoder_attention_heads=sizes["HEADS"],
        encoder_ffn_dim=4 * sizes["D"],
        decoder_ffn_dim=4 * sizes["D"],
        max_source_positions=sizes["FRAMES"],
        max_target_positions=sizes["ROOM"],
        num_mel_bins=sizes["MELS"],
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
    )
    return WhisperForConditionalGeneration(config)


def _mel_of(sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    shape = (1, sizes["MELS"], 2 * sizes["FRAMES"])
    return {"mel": generator.standard_normal(shape, dtype=np.float32)}


def _mel_and_tokens(sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    return _mel_of(sizes, generator) | tokens_of(sizes, generator)


def _logits(module: Any, tensors: Tensors) -> Any:
    found = module(input_features=tensors["mel"], decoder_input_ids=tensors["tokens"])
    return found.logits


SOUNDS = (
    Entry(
        "whisper",
        "whisper.mgn",
        {"D": 384, "HEADS": 6, "LAYERS": 4, "VOCAB": 51865, "MELS": 80, "FRAMES": 1500}
        | {"ROOM": 448, "S": 64},
        {"D": 32, "HEADS": 4, "LAYERS": 2, "VOCAB": 97, "MELS": 8, "FRAMES": 15, "ROOM": 24}
        | {"S": 12},
        _whisper,
        Call("whole", _mel_and_tokens, lambda *call: {"logits": _logits(*call)}),
        Decoder(
            Call(
                "encode",
                _mel_of,
                lambda module, tensors: {
                    "sound": module.model.encoder(tensors["mel"]).last_hidden_state
                },
            ),
            lambda module, tensors: _logits(module, tensors)[:, -1],
            start=3,
            step=lambda module, tensors: sound_step(module, tensors["mel"], start=3),
        ),
        unread=("proj_out.weight",),
    ),
)
