"""Gradients of weights on a CPU, for which windows are added up over all places.

Each result is compared with loops in f64, on both targets. The template is cheap in these tests, so
that it writes all of them: a test counts how often it does.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.passes.lower_kernels.product import contraction
from mgn.passes.schedules.product.summed_windows import SummedBlocking
from tests.fuzz.device import Runner
from tests.passes.lower_kernels.test_window_planes import (
    EPSILON,
    ONE,
    Call,
    attributes,
    drawn,
    run,
    unoptimised,  # noqa: F401
    windows_of,
)

CALLS = {
    "one channel to six": Call("conv2d", (4, 1, 12, 13), (6, 1, 5, 5)),
    "few places of several images": Call("conv2d", (5, 10, 2, 3), (9, 10, 3, 2), pads=ONE),
    "one place": Call("conv2d", (6, 4, 3, 3), (7, 4, 3, 3)),
    "large windows at every second place": Call(
        "conv2d", (2, 3, 17, 19), (33, 3, 5, 6), strides=(2, 2), pads=((3, 3), (3, 2))
    ),
    "uneven strides and sides": Call(
        "conv2d", (2, 4, 11, 20), (5, 4, 2, 4), strides=(1, 2), pads=((0, 2), (3, 1))
    ),
    "dilated": Call("conv2d", (2, 5, 12, 10), (12, 5, 3, 2), dilation=2, pads=((2, 1), (0, 2))),
    "groups of channels that no vector divides": Call(
        "conv2d", (3, 12, 9, 7), (38, 6, 3, 3), pads=ONE, groups=2
    ),
    "rows of a whole block": Call("conv2d", (1, 2, 60, 50), (4, 2, 3, 3), pads=ONE),
}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The template costs next to nothing; a list of what it wrote."""
    found: list[Any] = []

    def lower(*given: Any) -> Any:
        found.append(given)
        return original(*given)

    original, steps = contraction.lower_summed_windows, SummedBlocking.steps
    monkeypatch.setattr(contraction, "lower_summed_windows", lower)
    monkeypatch.setattr(SummedBlocking, "steps", lambda *given: 1e-6 * steps(*given))
    yield found


def gradient_of_weights(x: Any, g: Any, call: Call) -> Any:
    found = windows_of(x, call, 0.0)
    each, own = found.shape[1] // call.groups, g.shape[1] // call.groups
    parts = [
        np.einsum(
            "ncyzhw,nohw->ocyz",
            found[:, group * each : (group + 1) * each],
            g[:, group * own : (group + 1) * own],
        )
        for group in range(call.groups)
    ]
    return np.concatenate(parts)


def given_back(calls: dict[str, Call]) -> str:
    """A graph of gradients of images `x0`, … for what came back, `g0`, …."""
    inputs = ", ".join(
        f"x{n}: f32{list(call.image)}, w{n}: f32{list(call.weights)}, "
        f"g{n}: f32{list(places_of(call))}"
        for n, call in enumerate(calls.values())
    )

    def line(call: Call, n: int) -> str:
        places = f"conv2d(relu(x{n}), w{n}, {attributes(call)}, groups = {call.groups})"
        return f"  y{n} = -grad(sum({places} * relu(g{n})), w{n})"

    lines = "\n".join(line(call, n) for n, call in enumerate(calls.values()))
    results = ", ".join(f"y{n}" for n in range(len(calls)))
    return f"graph g({inputs}) {{\n{lines}\n  return {results}\n}}"


def places_of(call: Call) -> tuple[int, ...]:
    shape = windows_of(np.zeros(call.image), call, 0.0).shape
    return (call.image[0], call.weights[0], *shape[4:])


def inputs_of(calls: dict[str, Call]) -> dict[str, Any]:
    inputs, random = drawn(calls), np.random.default_rng(7)
    for n, call in enumerate(calls.values()):
        inputs[f"g{n}"] = random.uniform(-1, 1, places_of(call)).astype(np.float32)
    return inputs


@pytest.mark.long
def test_gradients_of_weights_have_the_value_of_loops(
    device_runner: Runner, written: list[Any]
) -> None:
    inputs = inputs_of(CALLS)
    results = run(device_runner, given_back(CALLS), inputs)
    if device_runner.description.is_cpu:
        assert len(written) == len(CALLS)
    for found in results:
        for n, (name, call) in enumerate(CALLS.items()):
            x, g = (inputs[f"{letter}{n}"].astype(np.float64) for letter in "xg")
            want = -gradient_of_weights(np.maximum(x, 0.0), np.maximum(g, 0.0), call)
            terms = g.size // g.shape[1]
            assert found[f"y{n}"].shape == want.shape, name
            assert np.max(np.abs(found[f"y{n}"] - want)) <= 2.0 * terms**2 * EPSILON, name


def test_infinities_reach_the_elements_that_meet_them(
    device_runner: Runner, written: list[Any]
) -> None:
    """What lies beside a row of places is not read as one of its own."""
    call = Call("conv2d", (2, 2, 6, 7), (3, 2, 2, 2))
    calls, inputs = {"infinities": call}, inputs_of({"infinities": call})
    inputs["x0"] = np.abs(inputs["x0"])
    inputs["g0"] = np.abs(inputs["g0"]) + 0.5
    inputs["x0"][0, 1, 3, 6] = np.inf
    want = -gradient_of_weights(inputs["x0"].astype(np.float64), inputs["g0"], call)
    assert np.isinf(want).sum() == 6, "two elements of windows meet the last column's"
    for found in run(device_runner, given_back(calls), inputs):
        np.testing.assert_array_equal(np.isinf(found["y0"]), np.isinf(want))
        np.testing.assert_allclose(found["y0"], want, rtol=1e-5)


WORDS = {
    "few channels": ((64, 6, 14, 14), (16, 6, 5, 5)),
    "one channel": ((64, 1, 32, 32), (6, 1, 5, 5)),
    "many channels": ((8, 64, 16, 16), (64, 64, 3, 3)),
}


@pytest.mark.parametrize("name", WORDS)
def test_windows_of_gradients_are_not_written(name: str, mgn_opt: Callable[..., Any]) -> None:
    image, weights = WORDS[name]
    call = {name: Call("conv2d", image, weights)}
    passes = "differentiate,simplify,saturate,choose-schedules"
    arguments = ("-", "-f", "mgn", "-p", passes, "--device", "cpu")
    outcome = mgn_opt(*arguments, stdin=given_back(call).replace("relu", ""))
    assert outcome.status == 0, outcome.stderr
    assert 'variant = "summed windows"' in outcome.stdout


@pytest.mark.parametrize("target", ["opencl", "spirv"])
def test_few_channels_are_added_up_in_parts_of_their_images(target: str) -> None:
    call = Call("conv2d", (64, 1, 22, 23), (6, 1, 3, 3), pads=ONE)
    calls = {"few": call}
    inputs = inputs_of(calls)
    del inputs["w0"]
    text = given_back(calls).replace("w0: f32[6, 1, 3, 3], ", "")
    text = text.replace("{\n", "{\n  w0 = full([6, 1, 3, 3], 0.5)\n", 1)
    executable = mgn.compile(mgn.parse(text), device="cpu", target=target)
    assert "the shared axis in" in str(executable.report)
    found = executable(**inputs)["y0"]
    x, g = (inputs[name].astype(np.float64) for name in ("x0", "g0"))
    want = -gradient_of_weights(np.maximum(x, 0.0), np.maximum(g, 0.0), call)
    terms = g.size // g.shape[1]
    assert np.max(np.abs(found - want)) <= 2.0 * terms * EPSILON * np.sqrt(terms)
