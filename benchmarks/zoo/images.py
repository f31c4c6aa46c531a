"""Models of images in the zoo, with their peers of torchvision and diffusers."""

from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any

import numpy as np

from benchmarks.zoo.entry import Call, Entry, Sizes, Tensors, image_of


def _logits(module: Any, tensors: Tensors) -> Tensors:
    return {"logits": module(tensors["image"])}


def _of_torchvision(name: str) -> Callable[[Sizes], Any]:
    def module(sizes: Sizes) -> Any:
        from torchvision import models

        return getattr(models, name)(num_classes=sizes["CLASSES"])

    return module


def _vit(sizes: Sizes) -> Any:
    from torchvision.models import VisionTransformer

    module = VisionTransformer(
        image_size=sizes["SIDE"],
        patch_size=sizes["PATCH"],
        num_layers=sizes["LAYERS"],
        num_heads=sizes["HEADS"],
        hidden_dim=sizes["D"],
        mlp_dim=4 * sizes["D"],
        num_classes=sizes["CLASSES"],
    )
    module.get_parameter("heads.head.weight").data.normal_(0, 0.02)  # it begins with zeros
    return module


def _lenet(sizes: Sizes) -> Any:
    from collections import OrderedDict

    from torch import nn

    channels, size = (sizes["CHANNELS"], 6, 16), ((sizes["SIDE"] - 4) // 2 - 4) // 2
    stages = [
        [nn.Conv2d(n_in, n_out, 5), nn.ReLU(), nn.MaxPool2d(2)]
        for n_in, n_out in pairwise(channels)
    ]
    widths = (16 * size * size, 120, 84)
    layers = [[nn.Linear(n_in, n_out), nn.ReLU()] for n_in, n_out in pairwise(widths)]
    parts = {
        "features": nn.Sequential(*chain.from_iterable(stages)),
        "flatten": nn.Flatten(),
        "classifier": nn.Sequential(*chain.from_iterable(layers), nn.Linear(84, sizes["CLASSES"])),
    }
    return nn.Sequential(OrderedDict(parts))


def _mlp(sizes: Sizes) -> Any:
    from torch import nn

    widths = (sizes["D"], sizes["FF"], sizes["FF"])
    layers = [[nn.Linear(n_in, n_out), nn.GELU()] for n_in, n_out in pairwise(widths)]
    return nn.Sequential(*chain.from_iterable(layers), nn.Linear(widths[-1], sizes["CLASSES"]))


def _unet(sizes: Sizes) -> Any:
    from diffusers.models.unets.unet_2d_condition import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=sizes["SIDE"],
        in_channels=sizes["LATENT"],
        out_channels=sizes["LATENT"],
        block_out_channels=tuple(sizes["WIDTH"] * multiple for multiple in (1, 2, 4, 4)),
        layers_per_block=sizes["BLOCKS"],
        cross_attention_dim=sizes["TEXT_WIDTH"],
        attention_head_dim=sizes["HEADS"],
        norm_num_groups=sizes["GROUPS"],
    )


def _noisy_image(sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    latent = (1, sizes["LATENT"], sizes["SIDE"], sizes["SIDE"])
    text = (1, sizes["TEXT"], sizes["TEXT_WIDTH"])
    return {
        "latent": generator.standard_normal(latent, dtype=np.float32),
        "timestep": np.array([321], np.int32),
        "text": generator.standard_normal(text, dtype=np.float32),
    }


def _noise(module: Any, tensors: Tensors) -> Tensors:
    return {"noise": module(tensors["latent"], tensors["timestep"], tensors["text"]).sample}


def _rows_of(sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {"x": generator.standard_normal((sizes["B"], sizes["D"]), dtype=np.float32)}


def _network(name: str) -> Entry:
    """One of torchvision's convolutional networks."""
    return Entry(
        name,
        f"{name}.mgn",
        {"H": 224, "W": 224, "CLASSES": 1000},
        {"H": 64, "W": 64, "CLASSES": 10},
        _of_torchvision(name),
        Call(name, image_of, _logits),
        packages=("torchvision",),
        unread=("num_batches_tracked",),
    )


IMAGES = (
    Entry(
        "mlp",
        "mlp.mgn",
        {"D": 784, "FF": 512, "CLASSES": 10, "B": 32},
        {"D": 20, "FF": 17, "CLASSES": 5, "B": 3},
        _mlp,
        Call("mlp", _rows_of, lambda module, tensors: {"logits": module(tensors["x"])}),
        packages=(),
    ),
    Entry(
        "lenet",
        "lenet.mgn",
        {"SIDE": 32, "CHANNELS": 1, "CLASSES": 10},
        {"SIDE": 24, "CHANNELS": 2, "CLASSES": 7},
        _lenet,
        Call("lenet", image_of, _logits),
        packages=(),
    ),
    *(_network(name) for name in ("resnet18", "resnet50", "mobilenet_v2")),
    Entry(
        "vit",
        "vit.mgn",
        {"D": 768, "HEADS": 12, "LAYERS": 12, "PATCH": 16, "SIDE": 224, "CLASSES": 1000},
        {"D": 32, "HEADS": 4, "LAYERS": 2, "PATCH": 8, "SIDE": 32, "CLASSES": 10},
        _vit,
        Call("vit", image_of, _logits),
        packages=("torchvision",),
    ),
    Entry(
        "unet",
        "unet.mgn",
        {"WIDTH": 320, "BLOCKS": 2, "HEADS": 8, "GROUPS": 32, "LATENT": 4, "SIDE": 64}
        | {"TEXT": 77, "TEXT_WIDTH": 768},
        {"WIDTH": 16, "BLOCKS": 1, "HEADS": 2, "GROUPS": 4, "SIDE": 16, "TEXT": 7}
        | {"TEXT_WIDTH": 24},
        _unet,
        Call("unet", _noisy_image, _noise),
        packages=("diffusers",),
    ),
)
