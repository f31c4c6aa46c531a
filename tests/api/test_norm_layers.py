"""Layers that normalise channels, one of which keeps running statistics in states."""

import os

import numpy as np
import pytest

import mgn
from mgn import nn

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")
SHAPES = [(4, 3), (2, 3, 5), (2, 5, 3, 4), (3, 2, 1, 1)]


def normalised(x: np.ndarray, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
    ends = (1, -1, *(1,) * (x.ndim - 2))
    return (x - mean.reshape(ends)) / np.sqrt(var.reshape(ends) + 1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_batch_norm_in_training_keeps_running_statistics(shape: tuple[int, ...]) -> None:
    spelled = f"f32[{', '.join(map(str, shape))}]"
    with mgn.graph("learn") as g:
        g.output(y=nn.BatchNorm(shape[1], training=True, name="bn")(g.input("x", spelled)))
    with mgn.graph("infer") as other:
        other.output(y=nn.BatchNorm(shape[1], name="bn")(other.input("x", spelled)))
    learn, infer = (mgn.compile(item.module, device=DEVICE) for item in (g, other))
    random = np.random.default_rng(len(shape))
    axes = tuple(axis for axis in range(len(shape)) if axis != 1)
    count = int(np.prod(shape)) // shape[1]
    mean, var = np.zeros(shape[1]), np.ones(shape[1])
    for _ in range(3):
        x = random.normal(1.5, 2.0, shape).astype(np.float32)
        wide = x.astype(np.float64)
        found = learn(x=x)["y"]
        own = normalised(wide, wide.mean(axes), wide.var(axes))
        np.testing.assert_allclose(found, own, rtol=1e-4, atol=1e-4)
        mean = 0.9 * mean + 0.1 * wide.mean(axes)
        var = 0.9 * var + 0.1 * wide.var(axes) * count / max(count - 1, 1)
        np.testing.assert_allclose(learn.state["bn.running_mean"], mean, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(learn.state["bn.running_var"], var, rtol=1e-5, atol=1e-5)
    for name in learn.state:
        infer.state[name] = learn.state[name]
    np.testing.assert_allclose(infer(x=x)["y"], normalised(wide, mean, var), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(infer.state["bn.running_mean"], mean, rtol=1e-5, atol=1e-5)


def test_a_norm_of_groups_has_the_parameters_of_pytorch() -> None:
    with mgn.graph("g") as g:
        g.output(y=nn.GroupNorm(2, 6, name="gn")(g.input("x", "f32[2, 6, 5]")))
    exe = mgn.compile(g.module, device=DEVICE)
    assert sorted(exe.params) == ["gn.bias", "gn.weight"]
    x = np.random.default_rng(0).standard_normal((2, 6, 5)).astype(np.float32)
    rows = x.astype(np.float64).reshape(2, 2, 15)
    wanted = (rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(exe(x=x)["y"], wanted.reshape(2, 6, 5), rtol=1e-4, atol=1e-5)
