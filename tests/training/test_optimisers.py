"""Optimisers against the formulas of their papers in f64, and against PyTorch's.

The gradients are given: the loss is the sum of the parameters times what comes in, so that updates
alone are compared.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import nn, ops
from mgn.builder import GraphBuilder, Value
from tests.training.references import REFERENCES

STEPS = 100
SHAPES: dict[str, tuple[int, ...]] = {"tall": (7, 5), "kernel": (4, 3, 2), "b": (6,)}
LR = 0.01
EPSILON = 2.0**-24

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}),
    "SGD with momentum": ("SGD", {"momentum": 0.9, "weight_decay": 0.1}),
    "SGD with Nesterov's": ("SGD", {"momentum": 0.9, "nesterov": True}),
    "Adam": ("Adam", {"weight_decay": 0.1}),
    "AdamW": ("AdamW", {"betas": (0.8, 0.99), "eps": 1e-6}),
    "Lion": ("Lion", {"weight_decay": 0.1}),
    "RMSProp": ("RMSProp", {"weight_decay": 0.1}),
    "RMSProp with momentum": ("RMSProp", {"centered": True, "momentum": 0.9}),
    "Adafactor": ("Adafactor", {"weight_decay": 0.1}),
    "Muon": ("Muon", {}),
}


@dataclass(frozen=True)
class EachItsOwn(mgn.Optimizer):
    """The optimiser of a case for the parameters that are named after it, so that all cases are one
    program.
    """

    def for_parameter(self, name: str, shape: tuple[int, ...]) -> mgn.Optimizer:
        return CASES_BUILT[name.split(".")[0]].for_parameter(name, shape)

    def update(self, at: mgn.Update) -> Value:
        raise AssertionError("every parameter has another one")


CASES_BUILT = {case: getattr(mgn, name)(lr=LR, **more) for case, (name, more) in CASES.items()}


def given_gradients(names: list[str]) -> GraphBuilder:
    """A graph in which each gradient is an input: the same one for all cases."""
    with mgn.graph("given") as g:
        total: Any = 0.0
        for name, shape in SHAPES.items():
            type = f"f32[{', '.join(map(str, shape))}]"
            gradient = g.input(name, type)
            for case in names:
                total = total + ops.sum(g.param(f"{case}.{name}", type, nn.normal()) * gradient)
        g.output(loss=total)
    return g


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
    trainer = mgn.Trainer(given_gradients(list(CASES)), optimizer=EachItsOwn())
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
