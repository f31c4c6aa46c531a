"""A BERT encoder as a PyTorch function of its weights and as an ONNX model, to stand beside
`examples/bert.mgn`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

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
    from onnx import TensorProto, helper

    graph = _Graph(tokens)
    x = graph.node("Gather", graph.weight("words", weights["embeddings.word_embeddings.weight"]),
                   "tokens", axis=0)  # fmt: skip
    places = weights["embeddings.position_embeddings.weight"][:tokens]
    kinds = weights["embeddings.token_type_embeddings.weight"][0]
    x = graph.node("Add", x, graph.weight("places", places + kinds))
    x = graph.norm(weights, "embeddings.LayerNorm", x)
    for number in range(LAYERS):
        x = graph.layer(weights, f"encoder.layer.{number}", x)
    shape = [1, tokens, WIDTH]
    model = helper.make_model(
        helper.make_graph(
            [*graph.nodes, helper.make_node("Identity", [x], ["hidden"])],
            "bert",
            [helper.make_tensor_value_info("tokens", TensorProto.INT32, [1, tokens])],
            [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, shape)],
            graph.initialisers,
        ),
        opset_imports=[helper.make_opsetid("", 20)],
        ir_version=9,
    )
    return model.SerializeToString()


class _Graph:
    """An ONNX graph as it is written; values are names."""

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.nodes: list[Any] = []
        self.initialisers: list[Any] = []

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        result = f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [result], **attributes))
        return result

    def weight(self, name: str, value: np.ndarray) -> str:
        from onnx import numpy_helper

        self.initialisers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def linear(self, weights: Weights, name: str, x: str) -> str:
        turned = self.weight(f"{name}.weight", weights[f"{name}.weight"].T)
        bias = self.weight(f"{name}.bias", weights[f"{name}.bias"])
        return self.node("Add", self.node("MatMul", x, turned), bias)

    def norm(self, weights: Weights, name: str, x: str) -> str:
        parts = [self.weight(f"{name}.{p}", weights[f"{name}.{p}"]) for p in ("weight", "bias")]
        return self.node("LayerNormalization", x, *parts, axis=-1, epsilon=EPS)

    def heads(self, name: str, x: str, perm: list[int]) -> str:
        shape = self.weight(f"{name}.split", np.array([1, self.tokens, HEADS, HEAD]))
        return self.node("Transpose", self.node("Reshape", x, shape), perm=perm)

    def layer(self, weights: Weights, name: str, x: str) -> str:
        own = f"{name}.attention.self"
        q = self.heads(f"{own}.q", self.linear(weights, f"{own}.query", x), [0, 2, 1, 3])
        k = self.heads(f"{own}.k", self.linear(weights, f"{own}.key", x), [0, 2, 3, 1])
        v = self.heads(f"{own}.v", self.linear(weights, f"{own}.value", x), [0, 2, 1, 3])
        scale = self.weight(f"{own}.scale", np.array(HEAD**0.5, np.float32))
        scores = self.node("Softmax", self.node("Div", self.node("MatMul", q, k), scale), axis=-1)
        a = self.node("Transpose", self.node("MatMul", scores, v), perm=[0, 2, 1, 3])
        shape = self.weight(f"{own}.join", np.array([1, self.tokens, WIDTH]))
        a = self.linear(weights, f"{name}.attention.output.dense", self.node("Reshape", a, shape))
        x = self.norm(weights, f"{name}.attention.output.LayerNorm", self.node("Add", x, a))
        h = self.node("Gelu", self.linear(weights, f"{name}.intermediate.dense", x))
        h = self.linear(weights, f"{name}.output.dense", h)
        return self.norm(weights, f"{name}.output.LayerNorm", self.node("Add", x, h))
