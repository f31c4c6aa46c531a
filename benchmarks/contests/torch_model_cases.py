"""The models that `benchmarks.torch_models` compiles: architectures of torchvision and of
transformers, built without a download, with random weights.

In: a size, small or full. Out: `MODELS`, which make a model with its inputs, by name.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import nn


class Case(NamedTuple):
    """A model and the arguments of its call."""

    model: nn.Module
    inputs: dict[str, torch.Tensor]


def _images(side: int, count: int = 1) -> torch.Tensor:
    return torch.randn(count, 3, side, side)


def _vision(name: str, side: int, **options: Any) -> Case:
    import torchvision

    model = getattr(torchvision.models, name)(weights=None, **options)
    return Case(model, {"x": _images(side, 2 if side < 100 else 1)})


def _vit(small: bool) -> Case:
    from torchvision.models import VisionTransformer

    sizes = (32, 8, 2, 2, 32, 64) if small else (224, 16, 12, 12, 768, 3072)
    side, patch, layers, heads, width, hidden = sizes
    model = VisionTransformer(side, patch, layers, heads, width, hidden, num_classes=10)
    nn.init.normal_(model.heads.head.weight, std=0.02)
    return Case(model, {"x": _images(side)})


def _convnext(small: bool) -> Case:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    widths, depths = ((8, 16, 24), (1, 1)) if small else ((96, 192, 384, 768), (3, 3, 9))
    blocks = [
        CNBlockConfig(width, following, depth)
        for width, following, depth in zip(widths[:-1], widths[1:], depths, strict=True)
    ]
    blocks.append(CNBlockConfig(widths[-1], None, 1 if small else 3))
    model = ConvNeXt(blocks, layer_scale=0.5, num_classes=10)
    return Case(model, {"x": _images(64 if small else 224)})


def _deeplab(small: bool) -> Case:
    from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large as build

    model = build(weights=None, weights_backbone=None, num_classes=5)
    return Case(_Only(model, "out"), {"x": _images(64 if small else 224, 2 if small else 1)})


class _Only(nn.Module):
    """One of a model's results."""

    def __init__(self, model: nn.Module, key: str) -> None:
        super().__init__()
        self.model, self.key = model, key

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        """The result of that name."""
        if "x" in inputs:
            return self.model(inputs["x"])[self.key]
        return getattr(self.model(**inputs), self.key)


def _text(name: str, config: str, key: str, small: bool, options: dict[str, Any]) -> Case:
    import transformers

    model = getattr(transformers, name)(getattr(transformers, config)(**options))
    count = 2 if small else 1
    ids = torch.randint(0, model.config.vocab_size, (count, 11 if small else 128))
    return Case(_Only(model, key), {"input_ids": ids})


SMALL_TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}


def _bert(small: bool) -> Case:
    options = {**SMALL_TEXT, "num_attention_heads": 2} if small else {}
    case = _text("BertModel", "BertConfig", "last_hidden_state", small, options)
    mask = torch.ones_like(case.inputs["input_ids"])
    mask[0, 8:] = 0
    return Case(case.model, {**case.inputs, "attention_mask": mask})


def _gpt2(small: bool) -> Case:
    options = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    options = {**(options if small else {}), "use_cache": False}
    return _text("GPT2LMHeadModel", "GPT2Config", "logits", small, options)


def _llama(small: bool) -> Case:
    options: dict[str, Any] = {
        "vocab_size": 8192,
        "hidden_size": 576,
        "num_hidden_layers": 12,
        "intermediate_size": 1536,
    }
    heads = (4, 2) if small else (9, 3)
    options = {**(SMALL_TEXT if small else options), "use_cache": False}
    options.update(num_attention_heads=heads[0], num_key_value_heads=heads[1])
    return _text("LlamaForCausalLM", "LlamaConfig", "logits", small, options)


def _whisper(small: bool) -> Case:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    options: dict[str, Any] = {
        "d_model": 32,
        "encoder_layers": 2,
        "encoder_attention_heads": 2,
        "encoder_ffn_dim": 64,
        "num_mel_bins": 8,
        "max_source_positions": 20,
    }
    config = WhisperConfig(**(options if small else {}))
    frames = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions)
    return Case(_Only(WhisperEncoder(config), "last_hidden_state"), {"input_features": frames})


class UNet(nn.Module):
    """A small U-Net: convolutions with group norm, down, up again, and joined."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = self.block(3, width)
        self.down = self.block(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave = self.block(2 * width, width)
        self.last = nn.Conv2d(width, 2, 1)

    @staticmethod
    def block(inner: int, outer: int) -> nn.Sequential:
        """Two convolutions."""
        return nn.Sequential(
            nn.Conv2d(inner, outer, 3, padding=1),
            nn.GroupNorm(4, outer),
            nn.SiLU(),
            nn.Conv2d(outer, outer, 3, padding=1),
            nn.SiLU(),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """`x[N, 3, H, W]`, both even, to `[N, 2, H, W]`."""
        high = self.enter(x)
        low = self.down(nn.functional.avg_pool2d(high, 2))
        return self.last(self.leave(torch.cat([high, self.up(low)], 1)))


def _unet(small: bool) -> Case:
    return Case(UNet(8 if small else 32), {"x": _images(16 if small else 128)})


MODELS: dict[str, Callable[[bool], Case]] = {
    "ResNet-18": lambda small: _vision("resnet18", 64 if small else 224),
    "MobileNetV2": lambda small: _vision("mobilenet_v2", 64 if small else 224),
    "EfficientNet-B0": lambda small: _vision("efficientnet_b0", 64 if small else 224),
    "ShuffleNetV2": lambda small: _vision("shufflenet_v2_x0_5", 64 if small else 224),
    "ConvNeXt": _convnext,
    "ViT": _vit,
    "DeepLabV3": _deeplab,
    "U-Net": _unet,
    "BERT": _bert,
    "GPT-2": _gpt2,
    "Llama": _llama,
    "Whisper encoder": _whisper,
}
"""Each model by its name; `small` for a size that compiles soon."""
