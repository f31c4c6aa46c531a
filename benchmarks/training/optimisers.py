"""Every optimiser of mgn on given gradients, beside PyTorch's and beside f64.

In: a number of steps. Out: a table, the worst row first: how far parameters are apart after the
steps, by the largest parameter. What PyTorch lacks, or computes in half precision, is beside its
paper's formula in f64 alone.
"""

from typing import Any

import numpy as np
import torch

import mgn
from tests.training.given_gradients import EachItsOwn, given_gradients
from tests.training.references import REFERENCES

SHAPES: dict[str, tuple[int, ...]] = {"matrix": (48, 33), "kernel": (8, 5, 3, 3), "bias": (31,)}
LR = 0.01

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}),
    "SGD, momentum": ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    "SGD, Nesterov": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "Adam": ("Adam", {"weight_decay": 0.1}),
    "AdamW": ("AdamW", {"weight_decay": 0.1}),
    "Lion": ("Lion", {"weight_decay": 0.1}),
    "RMSProp": ("RMSProp", {}),
    "RMSProp, centered, momentum": ("RMSProp", {"centered": True, "momentum": 0.9}),
    "Adafactor": ("Adafactor", {"weight_decay": 0.1}),
    "Muon": ("Muon", {}),
}
PEERS = {name: name for name in ("SGD", "Adam", "AdamW", "Adafactor")} | {"RMSProp": "RMSprop"}


def _gradients(step: int) -> dict[str, np.ndarray]:
    dice = np.random.default_rng(step)
    return {key: dice.standard_normal(shape, np.float32) for key, shape in SHAPES.items()}


def _ours(steps: int, device: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The parameters of all cases before and after the steps."""
    optimizer = EachItsOwn.of(CASES, LR)
    trainer = mgn.Trainer(given_gradients(CASES, SHAPES), optimizer=optimizer, device=device)
    before = dict(trainer.params)
    for step in range(steps):
        trainer.step(_gradients(step))
    return before, dict(trainer.params)


def _exact(case: str, before: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray]:
    """What the formulas give in f64."""
    name, settings = CASES[case]
    found: dict[str, np.ndarray] = {}
    for key in SHAPES:
        value, kept = before[f"{case}.{key}"].astype(np.float64), dict[str, Any]()
        for step in range(steps):
            given = _gradients(step)[key].astype(np.float64)
            value = REFERENCES[name](value, given, step + 1, kept, LR, **settings)
        found[key] = value
    return found


def _theirs(case: str, before: dict[str, np.ndarray], steps: int) -> dict[str, np.ndarray] | None:
    """What PyTorch makes of the parameters; None where it has no such optimiser in f32."""
    name, settings = CASES[case]
    if name not in PEERS:
        return None
    values = {key: torch.nn.Parameter(torch.tensor(before[f"{case}.{key}"])) for key in SHAPES}
    optimizer = getattr(torch.optim, PEERS[name])(values.values(), lr=LR, **settings)
    for step in range(steps):
        for key, gradient in _gradients(step).items():
            values[key].grad = torch.tensor(gradient)
        optimizer.step()
    return {key: value.detach().numpy() for key, value in values.items()}


def _apart(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    return max(float(np.abs(one[key] - other[key]).max() / np.abs(other[key]).max()) for key in one)


def optimiser_rows(steps: int, device: str = "auto") -> str:
    """The table."""
    before, after = _ours(steps, device)
    rows: list[tuple[float, str]] = []
    for case in CASES:
        ours = {key: after[f"{case}.{key}"] for key in SHAPES}
        exact, theirs = _exact(case, before, steps), _theirs(case, before, steps)
        own = _apart(ours, exact)
        beside = ("", "") if theirs is None else (_apart(ours, theirs), _apart(theirs, exact))
        figures = [f"{item:.1e}" if item != "" else "" for item in (beside[0], own, beside[1])]
        worst = own if beside[0] == "" else float(beside[0])
        rows.append((worst, f"| {case} | {' | '.join(figures)} |"))
    rows.sort(key=lambda item: -item[0])
    head = "| optimiser | mgn – PyTorch | mgn – f64 | PyTorch – f64 |\n|---|---|---|---|"
    return "\n".join([head, *(text for _, text in rows)])
