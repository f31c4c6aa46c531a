"""The graph that chooses a token, by the interpreter, against NumPy."""

from typing import Any

import numpy as np
import pytest

from mgn.api import as_module
from mgn.codegen.launch_plan import BufferKind, BufferPlan
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.philox import key_of
from mgn.dialects.mgn.structure import graphs_of
from mgn.text.sampling import NO_TOKEN, Sampling, sampling_graph

CLASSES = 37
LOGITS = np.random.default_rng(2).standard_normal((3, CLASSES)).astype(np.float32) * 2
SEEN = np.isin(np.arange(CLASSES), [1, 5, int(LOGITS[1].argmax())]).astype(np.float32)


class Sampled:
    """A graph for the row that `row` counts, run by the interpreter."""

    def __init__(self, sampling: Sampling) -> None:
        logits = BufferPlan(BufferKind.INPUT, "logits", "f32", (1, 3, CLASSES))
        token = BufferPlan(BufferKind.INPUT, "token", "i32", (1, 1))
        module = as_module(sampling_graph(sampling, logits, token, True)).lower()
        self._graph = next(graphs_of(module))
        self._sampling = sampling

    def run(
        self, row: int = 1, seed: int = 0, logits: np.ndarray = LOGITS
    ) -> dict[str, np.ndarray]:
        inputs: dict[str, Any] = {"logits": logits[None], "row": np.array(row, np.int32)}
        for name, value in self._sampling.numbers.items():
            inputs[name] = np.array(value, np.float32)
        if self._sampling.penalises:
            inputs["seen"] = SEEN
        return Interpreter(states={"mgn.random": key_of(seed)}).run(self._graph, inputs)


def expected_shares(sampling: Sampling, row: int) -> np.ndarray:
    """The probability of each token."""
    x = LOGITS[row].astype(np.float64)
    penalty = sampling.repetition_penalty
    x = np.where(SEEN > 0, np.where(x > 0, x / penalty, x * penalty), x)
    if not sampling.draws:
        return np.eye(CLASSES)[x.argmax()]
    x = x / sampling.temperature
    order = np.argsort(-x, kind="stable")
    x[order[sampling.top_k or CLASSES :]] = -np.inf
    share = np.exp(x - x.max())
    share /= share.sum()
    before = np.cumsum(share[order]) - share[order]
    share[order[before >= sampling.top_p]] = 0
    return share / share.sum()


FORMS = [
    Sampling(),
    Sampling(repetition_penalty=1.7),
    Sampling(temperature=0.7),
    Sampling(temperature=1.3, top_k=4),
    Sampling(temperature=1.3, top_k=CLASSES + 5),
    Sampling(temperature=0.9, top_p=0.6),
    Sampling(temperature=1.1, top_k=9, top_p=0.8, repetition_penalty=0.6),
    Sampling(temperature=2.0, top_p=1e-9),
]


@pytest.mark.parametrize("sampling", FORMS, ids=str)
def test_tokens_are_drawn_with_the_probabilities_of_the_definition(sampling: Sampling) -> None:
    sampled, draws = Sampled(sampling), 60 if sampling.draws else 1
    for row in (1,) if sampling.draws else (0, 1):
        share = expected_shares(sampling, row)
        counts = np.zeros(CLASSES)
        for seed in range(draws):
            results = sampled.run(row, seed)
            assert results["token"].shape == (1, 1) and results["token"].dtype == np.int32
            assert np.array_equal(results["number"], results["token"].reshape(()))
            counts[int(results["token"].item())] += 1
        assert not counts[share == 0].any()
        error = np.abs(counts / draws - share)
        assert (error <= 5 * np.sqrt(share * (1 - share) / draws) + 1e-12).all()


@pytest.mark.parametrize("sampling", FORMS, ids=str)
def test_logits_that_no_token_can_be_chosen_by_have_no_number(sampling: Sampling) -> None:
    sampled = Sampled(sampling)
    nothing, one_missing, one_possible = (LOGITS.copy() for _ in range(3))
    nothing[1] = one_possible[1] = -np.inf
    one_possible[1, 11] = -1e30
    for place in (0, int(LOGITS[1].argmin()), CLASSES - 1):
        one_missing[1] = LOGITS[1]
        one_missing[1, place] = np.nan
        assert sampled.run(logits=one_missing)["number"] == NO_TOKEN
        assert sampled.run(0, logits=one_missing)["number"] >= 0
    assert sampled.run(logits=nothing)["number"] == NO_TOKEN
    assert sampled.run(logits=one_possible)["number"] == 11


def test_tokens_that_were_chosen_are_seen_from_then_on() -> None:
    results = Sampled(Sampling(repetition_penalty=1.1)).run()
    expected = SEEN.copy()
    expected[int(results["token"].item())] = 1
    assert np.array_equal(results["seen"], expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"temperature": -0.1},
            r"temperature takes 0, or a number from 1e-06 to 1e\+06, not -0\.1",
        ),
        ({"temperature": float("nan")}, "temperature takes"),
        ({"temperature": float("inf")}, "temperature takes"),
        ({"temperature": 1e-40}, "temperature takes"),
        ({"repetition_penalty": 1e300}, "repetition_penalty takes a number from"),
        ({"top_k": -1}, "top_k takes"),
        ({"top_p": 0.0}, "top_p takes a number above 0, 1 at most"),
        ({"top_p": 1.5}, "top_p takes"),
        ({"repetition_penalty": 0}, "repetition_penalty takes"),
        ({"seed": -1}, "seed takes"),
        ({"seed": 1 << 64}, "seed takes"),
    ],
)
def test_what_no_choice_can_be_made_by_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(MgnError, match=message):
        Sampling(**options)


@pytest.mark.parametrize("options", [{"top_k": 1.5}, {"temperature": "1"}, {"seed": True}])
def test_a_number_is_no_text(options: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="takes a number"):
        Sampling(**options)
