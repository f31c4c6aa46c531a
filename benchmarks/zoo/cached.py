"""A peer's step of decoding as a module of tensors, which every contestant can take.

In: a model of transformers, and what it has read. Out: `Step`, as exporters of decoders have it.
The module's arguments are a token, and the keys and values of all layers so far. Its results are
the logits, and the keys and values with the token's own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """A module, and the tensors that it is called with."""

    module: Any
    arguments: tuple[Any, ...]


def text_step(model: Any, tokens: Any) -> Step:
    """A step of a model of text, after a prompt."""
    import torch
    from transformers import DynamicCache

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, token: Any, *held: Any) -> tuple[Any, ...]:
            cache = DynamicCache(_pairs(held))
            found = self.model(input_ids=token, past_key_values=cache, use_cache=True)
            return found.logits, *_tensors(cache)

    cache = DynamicCache()  # of all tokens, in layers of a window too: positions are their count
    with torch.inference_mode():
        model(input_ids=tokens, past_key_values=cache, use_cache=True)
    return Step(Module().eval(), (tokens[:, -1:], *_tensors(cache)))


def sound_step(model: Any, mel: Any, start: int) -> Step:
    """A step of a model that writes what it hears, after the token that a text begins with."""
    import torch
    from transformers import DynamicCache, EncoderDecoderCache

    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, token: Any, *held: Any) -> tuple[Any, ...]:
            pairs = _pairs(held)
            own, heard = pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]
            cache = EncoderDecoderCache(DynamicCache(own), DynamicCache(heard))
            found = self.model(
                decoder_input_ids=token,
                encoder_outputs=(held[-1],),
                past_key_values=cache,
                use_cache=True,
            )
            return found.logits, *_tensors(cache.self_attention_cache)

    token = torch.full((1, 1), start)
    with torch.inference_mode():
        sound = model.model.encoder(mel).last_hidden_state
        found = model(decoder_input_ids=token, encoder_outputs=(sound,), use_cache=True)
    cache = found.past_key_values
    own, heard = _tensors(cache.self_attention_cache), _tensors(cache.cross_attention_cache)
    return Step(Module().eval(), (token, *own, *heard, sound))


def _pairs(held: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The keys and values of each layer; what is left over is none of them."""
    return list(zip(held[: len(held) // 2 * 2 : 2], held[1::2], strict=True))


def _tensors(cache: Any) -> tuple[Any, ...]:
    return tuple(value for layer in cache.layers for value in (layer.keys, layer.values))
