"""The functions of ONNX's operators, by groups; `load_operators` enters them all in the table."""

import importlib

GROUPS = (
    "elementwise",
    "activations",
    "integers",
    "trigonometry",
    "shapes",
    "movement",
    "indexing",
    "order",
    "products",
    "convolution",
    "pooling",
    "resizing",
    "normalisation",
    "reductions",
    "recurrent",
    "random",
    "control",
    "sequences",
    "quantised",
    "signals",
    "microsoft",
    "microsoft_attention",
    "microsoft_quantised",
    "ml.linear",
    "ml.trees",
)
"""The files, in the order of the pages."""


def load_operators() -> None:
    """Enters all operators."""
    for group in GROUPS:
        importlib.import_module(f"mgn.frontend.onnx.operators.{group}")
