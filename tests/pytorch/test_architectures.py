"""Architectures of torchvision and transformers give what eager mode gives, by all three ways in:
`torch.onnx.export`, `mgn.from_torch` and `torch.compile`, each at several sizes of inputs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mgn

torch = pytest.importorskip("torch")

import mgn.torch  # noqa: E402

TOLERANCE = 2e-5
"""Largest accepted difference from eager mode, relative to the largest element."""

Inputs = dict[str, Any]


def _swin(sizes: tuple[int, ...]) -> tuple[Any, Inputs]:
    """Windows that are shifted, of an image that they need not divide."""
    pytest.importorskip("torchvision")
    from torchvision.models.swin_transformer import SwinTransformer

    module = SwinTransformer([4, 4], 16, [2], [2], [4, 4], num_classes=7)
    return module, {"x": torch.randn(sizes[0], 3, *sizes[1:])}


def _wav2vec2(sizes: tuple[int, ...]) -> tuple[Any, Inputs]:
    """Strided convolutions of a signal, and a grouped one whose weights have a norm."""
    transformers = pytest.importorskip("transformers")
    config = transformers.Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=48,
        conv_dim=(16, 16),
        conv_stride=(5, 2),
        conv_kernel=(10, 3),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    module = _Only(transformers.Wav2Vec2Model(config), "last_hidden_state")
    return module, {"input_values": torch.randn(*sizes)}


def _distilbert(sizes: tuple[int, ...]) -> tuple[Any, Inputs]:
    """An encoder without kinds of tokens, with padding."""
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(
        vocab_size=97, dim=32, n_layers=1, n_heads=4, hidden_dim=48
    )
    module = _Only(transformers.DistilBertModel(config), "last_hidden_state")
    return module, {"input_ids": _tokens(*sizes[:2]), "attention_mask": _mask(*sizes[:2])}


def _t5(sizes: tuple[int, ...]) -> tuple[Any, Inputs]:
    """An encoder and a decoder with biases by distance; PyTorch exports it with eager attention."""
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=97,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=1,
        num_heads=4,
        use_cache=False,
        feed_forward_proj="gated-gelu",
        attn_implementation="eager",
    )
    count, length, written = sizes
    module = _Only(transformers.T5ForConditionalGeneration(config), "logits")
    given = {"input_ids": _tokens(count, length), "attention_mask": _mask(count, length)}
    return module, given | {"decoder_input_ids": _tokens(count, written)}


class _Only(torch.nn.Module):
    """One of a model's results."""

    def __init__(self, model: Any, key: str) -> None:
        super().__init__()
        self.model, self.key = model, key

    def forward(self, **inputs: Any) -> Any:
        return getattr(self.model(**inputs), self.key)


def _tokens(*shape: int) -> Any:
    return torch.randint(3, 97, shape)


def _mask(count: int, length: int) -> Any:
    mask = torch.ones(count, length, dtype=torch.long)
    mask[0, length * 3 // 4 :] = 0
    return mask


def by_onnx(module: Any, inputs: Inputs) -> np.ndarray:
    """By the file that PyTorch writes."""
    pytest.importorskip("onnxscript")
    exported = torch.onnx.export(module, (), kwargs=inputs, dynamo=True, verbose=False)
    assert exported is not None
    return _run(mgn.from_onnx(exported.model_proto), inputs)


def by_export(module: Any, inputs: Inputs) -> np.ndarray:
    """By `torch.export`."""
    return _run(mgn.from_torch(module, (), inputs), inputs)


def by_compile(module: Any, inputs: Inputs) -> np.ndarray:
    """As a backend of `torch.compile`."""
    torch._dynamo.reset()
    with torch.inference_mode():
        return torch.compile(module, backend="mgn", dynamic=False)(**inputs).numpy()


def _run(program: Any, inputs: Inputs) -> np.ndarray:
    executable = mgn.compile(program, device="cpu")
    (found,) = executable(**{name: value.numpy() for name, value in inputs.items()}).values()
    return found.numpy() if hasattr(found, "numpy") else np.asarray(found)


@pytest.mark.long
@pytest.mark.parametrize("way", [by_onnx, by_export, by_compile], ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (_swin, (1, 32, 32)),
        (_swin, (2, 27, 37)),
        (_wav2vec2, (1, 400)),
        (_wav2vec2, (3, 333)),
        (_distilbert, (1, 12)),
        (_distilbert, (3, 7)),
        (_t5, (1, 12, 5)),
        (_t5, (2, 7, 9)),
    ],
    ids=lambda item: item.__name__.strip("_") if callable(item) else "x".join(map(str, item)),
)
def test_an_architecture_computes_what_eager_mode_computes(
    make: Callable[[tuple[int, ...]], tuple[Any, Inputs]], sizes: tuple[int, ...], way: Any
) -> None:
    torch.manual_seed(0)
    module, inputs = make(sizes)
    with torch.no_grad():
        for value in module.state_dict().values():
            if value.ndim > 1:
                value.normal_(0, value[0].numel() ** -0.5)
            elif value.is_floating_point():
                value.add_(torch.randn_like(value) * 0.1)
        wanted = module.eval()(**inputs).numpy()
    found = way(module, inputs)
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= TOLERANCE * np.abs(wanted).max()
