"""Optimisers by their papers' formulas, in f64, for tests.

In: a name, settings as mgn's optimiser has them. Out: a step: from a value, a gradient, the number
of the step from 1, and a dictionary of what is kept, to the next value.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Kept = dict[str, Any]
Step = Callable[[Array, Array, int, Kept, float], Array]


def sgd(p: Array, g: Array, t: int, kept: Kept, lr: float, **s: Any) -> Array:
    g = g + s.get("weight_decay", 0.0) * p
    momentum = s.get("momentum", 0.0)
    added = g if t == 1 else g * (1 - s.get("dampening", 0.0))
    velocity = kept["velocity"] = momentum * kept.get("velocity", 0.0) + added
    return p - lr * (g + momentum * velocity if s.get("nesterov") else velocity)


def adam_change(g: Array, t: int, kept: Kept, betas: tuple[float, float], eps: float) -> Array:
    m = kept["m"] = betas[0] * kept.get("m", 0.0) + (1 - betas[0]) * g
    v = kept["v"] = betas[1] * kept.get("v", 0.0) + (1 - betas[1]) * g**2
    return (m / (1 - betas[0] ** t)) / (np.sqrt(v / (1 - betas[1] ** t)) + eps)


def adam(p: Array, g: Array, t: int, kept: Kept, lr: float, **s: Any) -> Array:
    g = g + s.get("weight_decay", 0.0) * p
    return p - lr * adam_change(g, t, kept, s.get("betas", (0.9, 0.999)), s.get("eps", 1e-8))


def adamw(p: Array, g: Array, t: int, kept: Kept, lr: float, **s: Any) -> Array:
    change = adam_change(g, t, kept, s.get("betas", (0.9, 0.999)), s.get("eps", 1e-8))
    return p * (1 - lr * s.get("weight_decay", 0.01)) - lr * change


def lion(p: Array, g: Array, t: int, kept: Kept, lr: float, **s: Any) -> Array:
    first, second = s.get("betas", (0.9, 0.99))
    m = kept.get("m", np.zeros_like(g))
    kept["m"] = second * m + (1 - second) * g
    change = np.sign(first * m + (1 - first) * g)
    return p - lr * (change + s.get("weight_decay", 0.0) * p)


def rmsprop(p: Array, g: Array, t: int, kept: Kept, lr: float, **s: Any) -> Array:
    g = g + s.get("weight_decay", 0.0) * p
    alpha, eps = s.get("alpha", 0.99), s.get("eps", 1e-8)
    v = kept["v"] = alpha * kept.get("v", 0.0) + (1 - alpha) * g**2
    if s.get("centered"):
        m = kept["m"] = alpha * kept.get("m", 0.0) + (1 - alpha) * g
        v = v - m**2
    change = g / (np.sqrt(v) + eps)
    change = kept["b"] = s.get("momentum", 0.0) * kept.get("b", 0.0) + change
    return p - lr * change


def adafactor(p: Array, g: Array, t: int, kept: Kept, lr: float, **s: Any) -> Array:
    eps, clip = s.get("eps", (2.0**-23, 1e-3)), s.get("clip", 1.0)
    beta = 1 - t ** s.get("beta2_decay", -0.8)
    if p.ndim > 1:
        r = kept["r"] = beta * kept.get("r", 0.0) + (1 - beta) * (g**2).mean(-1, keepdims=True)
        c = kept["c"] = beta * kept.get("c", 0.0) + (1 - beta) * (g**2).mean(-2, keepdims=True)
        v = r * c / np.maximum(r.mean(-2, keepdims=True), eps[0])
    else:
        v = kept["v"] = beta * kept.get("v", 0.0) + (1 - beta) * g**2
    u = g / np.sqrt(np.maximum(v, eps[0] ** 2))
    u = u / max(1.0, np.sqrt((u**2).mean()) / clip)
    rate = min(lr, 1 / np.sqrt(t)) * max(eps[1], np.sqrt((p**2).mean()))
    return p * (1 - lr * s.get("weight_decay", 0.0)) - rate * u


def muon(p: Array, g: Array, t: int, kept: Kept, lr: float, **s: Any) -> Array:
    if p.ndim < 2:
        return adamw(p, g, t, kept, 1e-3)
    momentum, (a, b, c) = s.get("momentum", 0.95), (3.4445, -4.775, 2.0315)
    average = kept["b"] = momentum * kept.get("b", 0.0) + (1 - momentum) * g
    x = (1 - momentum) * g + momentum * average if s.get("nesterov", True) else average
    x = x.reshape(p.shape[0], -1)
    tall = x.shape[0] > x.shape[1]
    stretch = np.sqrt(max(1.0, x.shape[0] / x.shape[1]))
    x = x.T if tall else x
    x = x / max(np.sqrt((x**2).sum()), 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    x = (x.T if tall else x).reshape(p.shape)
    return p * (1 - lr * s.get("weight_decay", 0.1)) - lr * stretch * x


REFERENCES: dict[str, Callable[..., Array]] = {
    "SGD": sgd,
    "Adam": adam,
    "AdamW": adamw,
    "Lion": lion,
    "RMSProp": rmsprop,
    "Adafactor": adafactor,
    "Muon": muon,
}
