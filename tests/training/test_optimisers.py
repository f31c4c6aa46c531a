"""Optimisers against the formulas of their papers in f64, and against PyTorch's."""

from typing import Any

import numpy as np
import pytest

import mgn
from mgn import nn, ops
from tests.training.given_gradients import EachItsOwn, given_gradients
from tests.training.references import REFERENCES

STEPS = 100
SHAPES: dict[str, tuple[int, ...]] = {"tall": (7, 5), "kernel": (4, 3, 2), "b": (6,)}
LR = 0.01
EPSILON = 2.0**-24

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}),
    "SGD with momentum": ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    "SGD with dampening": ("SGD", {"momentum": 0.9, "dampening": 0.3}),
    "SGD with Nesterov's": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "Adam": ("Adam", {"weight_decay": 0.1}),
    "AdamW": ("AdamW", {"betas": (0.8, 0.99), "eps": 1e-6}),
    "Lion": ("Lion", {"weight_decay": 0.1}),
    "RMSProp": ("RMSProp", {"weight_decay": 0.1}),
    "RMSProp with momentum": ("RMSProp", {"centered": True, "momentum": 0.9}),
    "Adafactor": ("Adafactor", {"weight_decay": 0.1}),
    "Adafactor of the last gradient": ("Adafactor", {"beta2_decay": 0.0}),
    "Muon": ("Muon", {}),
}


def gradients(step: int) -> dict[str, np.ndarray]:
    """Gradients of very different sizes."""
    random = np.random.default_rng(step)
    return {
        name: (random.standard_normal(shape) * 10.0 ** random.uniform(-3, 1, shape)).astype("f4")
        for name, shape in SHAPES.items()
    }


@pytest.fixture(scope="module")
def trained() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The parameters of all cases before and after all steps."""
    trainer = mgn.Trainer(given_gradients(CASES, SHAPES), optimizer=EachItsOwn.of(CASES, LR))
    before = dict(trainer.params)
    for step in range(STEPS):
        trainer.step(gradients(step))
    return before, dict(trainer.params)


Trained = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


@pytest.mark.parametrize("case", CASES)
def test_an_optimiser_follows_its_formulas(case: str, trained: Trained) -> None:
    name, settings = CASES[case]
    before, after = trained
    for key in SHAPES:
        value = before[f"{case}.{key}"]
        exact, kept = value.astype(np.float64), dict[str, Any]()
        for step in range(STEPS):
            given = gradients(step)[key].astype(np.float64)
            exact = REFERENCES[name](exact, given, step + 1, kept, LR, **settings)
        # a few roundings in each step, in units of the largest value
        bound = 8 * EPSILON * STEPS * (np.abs(value).max() + 1)
        np.testing.assert_allclose(after[f"{case}.{key}"], exact, rtol=0, atol=bound, err_msg=key)


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("Lion", "Muon")])
def test_an_optimiser_does_what_pytorch_does(case: str, trained: Trained) -> None:
    """PyTorch has no Lion, and its Muon is one of bfloat16."""
    torch = pytest.importorskip("torch")
    name, settings = CASES[case]
    before, after = trained
    theirs = {key: torch.nn.Parameter(torch.tensor(before[f"{case}.{key}"])) for key in SHAPES}
    called = getattr(torch.optim, {"RMSProp": "RMSprop"}.get(name, name))
    optimizer = called(theirs.values(), lr=LR, **settings)
    for step in range(STEPS):
        for key, value in gradients(step).items():
            theirs[key].grad = torch.tensor(value)
        optimizer.step()
    for key, value in theirs.items():
        found = after[f"{case}.{key}"]
        np.testing.assert_allclose(found, value.detach().numpy(), rtol=1e-6, atol=1e-6)


def test_parameters_in_f64_move_by_every_optimiser() -> None:
    """All settings take numbers of the parameter's type."""
    with mgn.graph("doubles") as g:
        total: Any = 0.0
        for case in CASES:
            total = total + ops.sum(g.param(f"{case}.w", "f64[2, 2]", nn.ones()))
        g.output(loss=total)
    trainer = mgn.Trainer(g, optimizer=EachItsOwn.of(CASES, LR))
    trainer.step({})
    for case in CASES:
        found = trainer.params[f"{case}.w"]
        assert found.dtype == np.float64 and (found < 1).all(), case
