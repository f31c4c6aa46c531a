"""Learning rates by the count of steps, against their formulas in f64."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import nn, ops
from mgn.training.optimisers.schedules import Schedule, constant, cosine, linear, step, warmup

DONE = np.arange(240, dtype=np.int32)

SCHEDULES: dict[str, tuple[Schedule, Callable[[int], float]]] = {
    "constant": (constant(0.25), lambda t: 0.25),
    "linear": (linear(0.5, 0.1, 100), lambda t: 0.5 - 0.4 * min(t, 100) / 100),
    "cosine": (
        cosine(0.5, 100, end=0.1),
        lambda t: 0.1 + 0.2 * (1 + np.cos(np.pi * min(t, 100) / 100)),
    ),
    "step": (step(0.5, every=30, factor=0.1), lambda t: 0.5 * 0.1 ** (t // 30)),
    "warmup": (
        warmup(20, linear(0.5, 0.0, 100)),
        lambda t: min((t + 1) / 20, 1) * 0.5 * (1 - min(max(t - 20, 0), 100) / 100),
    ),
    "a number behind a warmup": (warmup(3, 0.5), lambda t: 0.5 * min((t + 1) / 3, 1)),
    "a product": (
        2 * cosine(1.0, 50) * step(0.5, 10, 0.5),
        lambda t: (1 + np.cos(np.pi * min(t, 50) / 50)) * 0.5 * 0.5 ** (t // 10),
    ),
    "one of one's own": (
        Schedule("1 / (1 + t)", lambda done: 1.0 / (1.0 + ops.cast(done, "f32"))),
        lambda t: 1 / (1 + t),
    ),
}


@pytest.fixture(scope="module")
def rates() -> dict[str, np.ndarray]:
    with mgn.graph("rates") as g:
        done = g.input("done", "i32[240]")
        for name, (schedule, _) in SCHEDULES.items():
            g.output(**{name: schedule(done)})
    return mgn.compile(g)(done=DONE)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_gives_the_rate_of_each_step(name: str, rates: dict[str, np.ndarray]) -> None:
    expected = [SCHEDULES[name][1](int(t)) for t in DONE]
    np.testing.assert_allclose(np.broadcast_to(rates[name], 240), expected, rtol=3e-6, atol=1e-7)


def test_a_schedule_is_said_in_a_line() -> None:
    assert repr(warmup(20, 2 * cosine(0.001, 100))) == "warmup(20, cosine(0.001, 100, 0) * 2)"
    assert cosine(0.5, 10) == cosine(0.5, 10)
    assert cosine(0.5, 10) != cosine(0.5, 11)


def test_two_schedules_of_one_text_are_two() -> None:
    """Muon moves the matrix, and the optimiser of others the vector."""
    rates = [Schedule("mine", lambda done, rate=rate: rate) for rate in (0.25, 0.0)]
    with mgn.graph("g") as g:
        w, b = g.param("w", "f32[2, 2]", nn.ones()), g.param("b", "f32[2]", nn.ones())
        g.output(loss=ops.sum(w) + ops.sum(b))
    trainer = mgn.Trainer(g, optimizer=mgn.Muon(rates[0], others=mgn.SGD(rates[1])))
    trainer.step({})
    assert (trainer.params["w"] < 1).all()
    assert trainer.params["b"].tolist() == [1, 1]


def test_factors_of_an_optimiser_of_others_come_before_those_of_muon() -> None:
    with mgn.graph("g") as g:
        names = {"w": "f32[2, 2]", "b": "f32[2]", "c": "f32[2]", "s": "f32"}
        for name, type in names.items():
            g.param(name, type, nn.ones())
        g.output(loss=sum((ops.sum(g.param(name, type)) for name, type in names.items()), 0.0))
    others = mgn.Muon(others=mgn.SGD(0.5, lr_factors={"b": 0.5}))
    trainer = mgn.Trainer(g, optimizer=mgn.Muon(others=others, lr_factors={"b|c": 0.0}))
    trainer.step({})
    assert {name: trainer.params[name].tolist() for name in "bcs"} == {
        "b": [0.75, 0.75],
        "c": [1, 1],
        "s": 0.5,
    }
    with pytest.raises(mgn.MgnError, match="lr_factors: no parameter matches 'bais'"):
        mgn.Trainer(g, optimizer=mgn.Muon(others=mgn.SGD(lr_factors={"bais": 0.0})))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: linear(0.5, float("nan"), 10), "takes finite numbers, not nan"),
        (lambda: cosine(0.5, 0), "a count of steps of at least 1, not 0"),
        (lambda: warmup(2.5, 0.1), r"a count of steps of at least 1, not 2\.5"),  # pyright: ignore[reportArgumentType]
        (lambda: warmup(2, "0.1"), r"a finite number or a schedule, not '0\.1'"),  # pyright: ignore[reportArgumentType]
        (lambda: step(0.1, 10, 0.0), "factor is a number above 0, not 0"),
        (lambda: mgn.AdamW(lr=None), "a finite number or a schedule, not None"),  # pyright: ignore[reportArgumentType]
        (
            lambda: mgn.AdamW(lr=float("nan")),
            "learning rate is a finite number or a schedule, not n",
        ),
        (lambda: mgn.SGD(lr=10**400), "learning rate is a finite number or a schedule, not 1000"),
        (lambda: step(10**400, 10, 0.5), "takes finite numbers, not 1000"),
    ],
)
def test_a_schedule_of_wrong_figures_is_refused(wrong: Callable[[], object], message: str) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        wrong()


@dataclass(frozen=True)
class LeavesNothing(mgn.SGD):
    """An optimiser that forgets to say what a parameter has."""

    def for_parameter(self, name: str, shape: tuple[int, ...]) -> Any:
        return None


@pytest.mark.parametrize(
    ("optimizer", "message"),
    [
        (LeavesNothing(), "LeavesNothing: for_parameter gives an optimiser, not None"),
        (
            mgn.SGD(Schedule("mine", lambda done: ops.full([2], 0.5))),
            r"'mine' gives f32\[2\], and a",
        ),
    ],
)
def test_an_optimiser_of_ones_own_that_is_wrong_is_told(optimizer: Any, message: str) -> None:
    with mgn.graph("g") as g:
        g.output(loss=ops.sum(g.param("w", "f32[2]", nn.ones())))
    with pytest.raises(mgn.MgnError, match=message):
        mgn.Trainer(g, optimizer=optimizer)
