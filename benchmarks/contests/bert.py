"""A BERT encoder as a PyTorch function of its weights and as an ONNX model, to stand beside
`examples/bert.mgn`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.contests.onnx_graph import OnnxGraph

WIDTH, HEADS, LAYERS, EPS = 384, 12, 6, 1e-12
HEAD = WIDTH // HEADS

Weights = Mapping[str, Any]


def forward(torch: Any, weights: Weights, tokens: Any) -> Any:
    """The last hidden state."""
    functional = torch.nn.functional

    def linear(value: Any, name: str) -> Any:
        return functional.linear(value, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(value: Any, name: str) -> Any:
        gain, shift = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return functional.layer_norm(value, gain.shape, gain, shift, EPS)

    def heads(value: Any) -> Any:
        return value.unflatten(-1, (HEADS, HEAD)).transpose(-3, -2)

    x = weights["embeddings.word_embeddings.weight"][tokens]
    x = x + weights["embeddings.position_embeddings.weight"][: tokens.shape[-1]]
    x = norm(x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for number in range(LAYERS):
        name = f"encoder.layer.{number}"
        q, k, v = (
            heads(linear(x, f"{name}.attention.self.{part}")) for part in ("query", "key", "value")
        )
        a = functional.scaled_dot_product_attention(q, k, v).transpose(-3, -2).flatten(-2)
        a = linear(a, f"{name}.attention.output.dense")
        x = norm(x + a, f"{name}.attention.output.LayerNorm")
        h = functional.gelu(linear(x, f"{name}.intermediate.dense"))
        x = norm(x + linear(h, f"{name}.output.dense"), f"{name}.output.LayerNorm")
    return x


def onnx_model(weights: Weights, tokens: int) -> bytes:
    """The same for one row of tokens, as a serialised model of opset 20."""
    graph = _Graph(tokens)
    x = graph.node("Gather", graph.constant("words", weights["embeddings.word_embeddings.weight"]),
                   "tokens", axis=0)  # fmt: skip
    places = weights["embeddings.position_embeddings.weight"][:tokens]
    kinds = weights["embeddings.token_type_embeddings.weight"][0]
    x = graph.node("Add", x, graph.constant("places", places + kinds))
    x = graph.norm(weights, "embeddings.LayerNorm", x)
    for number in range(LAYERS):
        x = graph.layer(weights, f"encoder.layer.{number}", x)
    return graph.model("tokens", "INT32", [1, tokens], "hidden", [1, tokens, WIDTH], x)


class _Graph(OnnxGraph):
    """BERT's parts."""

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.tokens = tokens

    def linear(self, weights: Weights, name: str, x: str) -> str:
        turned = self.constant(f"{name}.weight", weights[f"{name}.weight"].T)
        bias = self.constant(f"{name}.bias", weights[f"{name}.bias"])
        return self.node("Add", self.node("MatMul", x, turned), bias)

    def norm(self, weights: Weights, name: str, x: str) -> str:
        parts = [self.constant(f"{name}.{p}", weights[f"{name}.{p}"]) for p in ("weight", "bias")]
        return self.node("LayerNormalization", x, *parts, axis=-1, epsilon=EPS)

    def heads(self, name: str, x: str, perm: list[int]) -> str:
        shape = self.constant(f"{name}.split", np.array([1, self.tokens, HEADS, HEAD]))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=perm)

    def layer(self, weights: Weights, name: str, x: str) -> str:
        own = f"{name}.attention.self"
        q = self.heads(f"{own}.q", self.linear(weights, f"{own}.query", x), [0, 2, 1, 3])
        k = self.heads(f"{own}.k", self.linear(weights, f"{own}.key", x), [0, 2, 3, 1])
        v = self.heads(f"{own}.v", self.linear(weights, f"{own}.value", x), [0, 2, 1, 3])
        scale = self.constant(f"{own}.scale", np.array(HEAD**0.5, np.float32))
        scores = self.node("Softmax", self.node("Div", self.node("MatMul", q, k), scale), axis=-1)
        a = self.node("Transpose", self.node("MatMul", scores, v), perm=[0, 2, 1, 3])
        shape = self.constant(f"{own}.join", np.array([1, self.tokens, WIDTH]))
        a = self.linear(weights, f"{name}.attention.output.dense", self.node("Reshape", a, shape))
        x = self.norm(weights, f"{name}.attention.output.LayerNorm", self.node("Add", x, a))
        h = self.node("Gelu", self.linear(weights, f"{name}.intermediate.dense", x))
        h = self.linear(weights, f"{name}.output.dense", h)
        return self.norm(weights, f"{name}.output.LayerNorm", self.node("Add", x, h))
