"""Training in half precision is as near to f32 as PyTorch's autocast and GradScaler are."""

from typing import Any

import numpy as np
import pytest

import mgn

PROGRAM = """
graph net(x: f32[64, 32], labels: i32[64]) {
  param w1: f32[128, 32] = he_normal()
  param b1: f32[128] = zeros()
  param g: f32[128] = ones()
  param b: f32[128] = zeros()
  param w2: f32[128, 128] = he_normal()
  param b2: f32[128] = zeros()
  param w3: f32[10, 128] = he_normal()
  h = gelu(linear(x, w1, b1))
  h = h + linear(layer_norm(h, g, b), w2, b2)
  return loss = cross_entropy(linear(h, w3), labels)
}
"""
STEPS = 100


def batches() -> list[dict[str, np.ndarray]]:
    """Rows whose class can be told from them."""
    random = np.random.default_rng(0)
    drawn = [random.standard_normal((64, 32)).astype(np.float32) for _ in range(STEPS)]
    return [{"x": x, "labels": np.argmax(x[:, :10], axis=1).astype(np.int32)} for x in drawn]


def here(precision: str) -> np.ndarray:
    """The losses of mgn."""
    optimizer = mgn.AdamW(1e-3)
    trainer = mgn.Trainer(mgn.parse(PROGRAM), optimizer=optimizer, precision=precision, seed=1)
    return np.array([trainer.step(batch)["loss"] for batch in batches()])


def theirs(torch: Any, precision: str) -> np.ndarray:
    """The losses of PyTorch."""
    functions = torch.nn.functional
    first = mgn.Trainer(mgn.parse(PROGRAM), optimizer=mgn.AdamW(1e-3), seed=1).params
    w = {name: torch.nn.Parameter(torch.tensor(np.array(first[name]))) for name in first}
    optimizer = torch.optim.AdamW(w.values(), lr=1e-3, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "f16")
    half = {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision)
    losses: list[float] = []
    for batch in batches():
        with torch.autocast("cpu", dtype=half, enabled=half is not None):
            x = torch.from_numpy(batch["x"])
            h = functions.gelu(functions.linear(x, w["w1"], w["b1"]))
            normed = functions.layer_norm(h, (128,), w["g"], w["b"])
            h = h + functions.linear(normed, w["w2"], w["b2"])
            labels = torch.from_numpy(batch["labels"]).long()
            loss = functions.cross_entropy(functions.linear(h, w["w3"]), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return np.array(losses)


def test_losses_in_half_precision_are_as_near_to_f32_as_those_of_autocast() -> None:
    torch: Any = pytest.importorskip("torch")
    exact = here("f32")
    np.testing.assert_allclose(theirs(torch, "f32"), exact, rtol=1e-5)
    for precision in ("bf16", "f16"):
        ours, peers = here(precision), theirs(torch, precision)
        assert np.abs(ours - exact).max() < 1.5 * np.abs(peers - exact).max(), precision
