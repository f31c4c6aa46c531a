"""Small programs that tests train, and batches for them."""

import numpy as np

import mgn
from mgn import nn, ops
from mgn.builder import GraphBuilder

Batch = dict[str, np.ndarray]


def mlp(dropout: float = 0.0) -> GraphBuilder:
    """Two layers for eight numbers in three classes."""
    with mgn.graph("mlp") as g:
        x, t = g.input("x", "f32[16, 8]"), g.input("t", "i32[16]")
        h = ops.dropout(ops.relu(nn.Linear(8, 12, name="hidden")(x)), dropout)
        logits = nn.Linear(12, 3, name="output")(h)
        g.output(loss=ops.cross_entropy(logits, t), logits=logits)
    return g


def batch(seed: int = 0) -> Batch:
    """Sixteen rows whose class can be told from them."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((16, 8)).astype(np.float32)
    return {"x": x, "t": np.argmax(x[:, :3], axis=1).astype(np.int32)}
