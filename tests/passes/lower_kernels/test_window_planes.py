"""Windows that a CPU reads from copies of planes: depthwise convolutions, pooling, convolutions.

Many calls are one graph; each result is compared with loops in f64, on both targets. What is built
of SPIR-V is not optimised by the driver, which optimises the same kernels in OpenCL C.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.passes.saturate import saturate
from tests.fuzz.device import Runner
from tests.fuzz.variants import Variant
from tests.support.opencl_fixture import UNOPTIMISED

Array = np.ndarray[Any, np.dtype[np.float64]]
Pads = tuple[tuple[int, int], tuple[int, int]]

EPSILON = 2.0**-24


@pytest.fixture(autouse=True)
def unoptimised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds what is SPIR-V without the driver's optimiser, where the device under test runs it."""
    if "device_runner" in request.fixturenames:
        runner: Runner = request.getfixturevalue("device_runner")
        monkeypatch.setattr(runner, "spirv_options", [UNOPTIMISED])


@dataclass(frozen=True)
class Call:
    """One operation on an image `[N, C, H, W]`, and what else decides its value."""

    text: str
    image: tuple[int, int, int, int]
    weights: tuple[int, int, int, int]
    strides: tuple[int, int] = (1, 1)
    pads: Pads = ((0, 0), (0, 0))
    dilation: int = 1
    groups: int = 1


def windows_of(x: Array, call: Call, value: float) -> Array:
    """`[N, C, kh, kw, oh, ow]`, one element of all windows at a time."""
    kernel, padded = (
        call.weights[2:],
        np.pad(x, ((0, 0), (0, 0), *call.pads), constant_values=value),
    )
    spans = [(size - 1) * call.dilation + 1 for size in kernel]
    counts = [
        (size - span) // step + 1
        for size, span, step in zip(padded.shape[2:], spans, call.strides, strict=True)
    ]
    result = np.empty((*x.shape[:2], *kernel, *counts))
    for y in range(kernel[0]):
        for z in range(kernel[1]):
            rows = np.arange(counts[0]) * call.strides[0] + y * call.dilation
            columns = np.arange(counts[1]) * call.strides[1] + z * call.dilation
            result[:, :, y, z] = padded[:, :, rows][:, :, :, columns]
    return result


def convolved(x: Array, w: Array, call: Call) -> Array:
    found = windows_of(x, call, 0.0)
    each, own = found.shape[1] // call.groups, w.shape[0] // call.groups
    parts = [
        np.einsum(
            "ncyzhw,ocyz->nohw",
            found[:, group * each : (group + 1) * each],
            w[group * own : (group + 1) * own],
        )
        for group in range(call.groups)
    ]
    return np.concatenate(parts, axis=1)


def depthwise(c: int, h: int, w: int, k: tuple[int, int], **how: Any) -> Call:
    image, weights = (how.pop("batch", 1), c, h, w), (c, 1, *k)
    return Call("conv2d", image, weights, groups=c, **how)


ONE = ((1, 1), (1, 1))

SUMS = {
    "rows as long as vectors": depthwise(3, 9, 32, (3, 3), pads=ONE),
    "rows with a rest": depthwise(4, 30, 37, (3, 3), pads=ONE, batch=2),
    "rows shorter than a vector": depthwise(9, 7, 7, (3, 3), pads=ONE),
    "rows of two vectors' halves": depthwise(5, 14, 14, (5, 5), pads=((2, 2), (2, 2))),
    "every second place": depthwise(6, 28, 28, (3, 3), pads=ONE, strides=(2, 2)),
    "every second place, odd": depthwise(5, 15, 13, (3, 3), pads=ONE, strides=(2, 2)),
    "uneven strides and sides": depthwise(3, 11, 40, (2, 4), pads=((0, 2), (3, 1)), strides=(1, 2)),
    "dilated": depthwise(2, 21, 19, (3, 2), pads=((2, 1), (0, 2)), dilation=2, strides=(2, 1)),
    "several bands": depthwise(2, 90, 130, (3, 3), pads=ONE),
    "no padding, two places": depthwise(2, 4, 3, (3, 2)),
    "large windows": depthwise(3, 20, 37, (9, 9), pads=((4, 4), (4, 4))),
    "large windows by twos": depthwise(2, 23, 30, (8, 11), pads=((3, 4), (5, 5)), strides=(2, 2)),
    "every third place": depthwise(3, 40, 100, (3, 5), pads=((1, 1), (2, 2)), strides=(3, 3)),
    "every eighth place": depthwise(2, 33, 150, (3, 8), strides=(4, 8)),
    "every fifth place of short rows": depthwise(2, 26, 26, (7, 7), pads=ONE, strides=(5, 5)),
    "windows of long rows": depthwise(2, 5, 150, (2, 60), pads=((1, 0), (20, 30))),
    "windows as large as images": depthwise(2, 14, 14, (13, 13), pads=((6, 6), (6, 6))),
}

PRODUCTS = {
    "rows shorter than a vector": Call("conv2d", (1, 40, 7, 7), (24, 40, 3, 3), pads=ONE),
    "rows with a rest": Call("conv2d", (2, 5, 12, 37), (17, 5, 3, 3), pads=ONE),
    "every second place": Call("conv2d", (1, 66, 14, 14), (32, 66, 3, 3), strides=(2, 2), pads=ONE),
    "large windows": Call(
        "conv2d", (1, 3, 33, 35), (16, 3, 7, 7), strides=(2, 2), pads=((3, 3), (3, 3))
    ),
    "groups of two images": Call(
        "conv2d", (2, 14, 9, 20), (26, 7, 3, 2), pads=((0, 1), (1, 0)), groups=2
    ),
    "dilated": Call("conv2d", (1, 33, 13, 18), (9, 33, 3, 3), dilation=2, pads=((2, 2), (1, 3))),
    "several bands": Call("conv2d", (1, 20, 60, 56), (13, 20, 3, 3), pads=ONE),
    "one channel of the result": Call("conv2d", (2, 34, 19, 43), (1, 34, 3, 3), pads=ONE),
    "one of each group": Call("conv2d", (1, 12, 21, 30), (4, 3, 3, 3), groups=4, strides=(2, 2)),
    "bands of a row": Call("conv2d", (1, 36, 3, 900), (3, 36, 3, 3), pads=ONE),
    "rows that room for few channels is left by": Call("conv2d", (1, 16, 2, 9000), (2, 16, 2, 2)),
}


def program(calls: dict[str, Call], write: Callable[[Call, int], str]) -> str:
    """A graph with all calls on images `x0`, `x1`, … with weights `w0`, `w1`, …."""
    inputs = ", ".join(
        f"x{n}: f32{list(call.image)}, w{n}: f32{list(call.weights)}"
        for n, call in enumerate(calls.values())
    )
    lines = "\n".join(f"  y{n} = {write(call, n)}" for n, call in enumerate(calls.values()))
    results = ", ".join(f"y{n}" for n in range(len(calls)))
    return f"graph g({inputs}) {{\n{lines}\n  return {results}\n}}"


def attributes(call: Call) -> str:
    pads = [list(pair) for pair in call.pads]
    return f"stride = {list(call.strides)}, padding = {pads}, dilation = {call.dilation}"


def convolution(call: Call, n: int) -> str:
    """With a prologue, and with something of the result's shape in the epilogue."""
    product = f"conv2d(relu(x{n}), w{n}, {attributes(call)}, groups = {call.groups})"
    return f"clamp({product}, -3.0, 3.0)"


def run(runner: Runner, text: str, inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """The results on each target that the device takes."""
    targets = ["opencl", "spirv"] if runner.takes_spirv else ["opencl"]
    variant, module = Variant(), mgn.parse(text).lower()
    compiled = variant.compile(module, runner.description)
    described = variant.described(runner.description)
    jobs = [runner.job(compiled, module, described, target, False) for target in targets]
    runner.build(jobs)
    assert [job.error for job in jobs] == [None] * len(jobs)
    return [runner.run(job, inputs, {}) for job in jobs]


def drawn(calls: dict[str, Call]) -> dict[str, Any]:
    random = np.random.default_rng(5)
    inputs: dict[str, Any] = {}
    for n, call in enumerate(calls.values()):
        inputs[f"x{n}"] = random.uniform(-2, 2, call.image).astype(np.float32)
        inputs[f"w{n}"] = random.uniform(-1, 1, call.weights).astype(np.float32)
    return inputs


@pytest.mark.parametrize("calls", [SUMS, PRODUCTS], ids=["sums", "products"])
def test_convolutions_that_read_copied_planes_have_the_value_of_loops(
    calls: dict[str, Call], device_runner: Runner
) -> None:
    inputs = drawn(calls)
    for found in run(device_runner, program(calls, convolution), inputs):
        for n, (name, call) in enumerate(calls.items()):
            x, w = (inputs[f"{letter}{n}"].astype(np.float64) for letter in "xw")
            want = np.clip(convolved(np.maximum(x, 0.0), w, call), -3.0, 3.0)
            terms = w[0].size
            bound = 2.0 * terms * EPSILON * 2.0 * terms
            assert found[f"y{n}"].shape == want.shape, name
            assert np.max(np.abs(found[f"y{n}"] - want)) <= bound, name


def test_pooling_that_reads_copied_planes_has_the_value_of_loops(device_runner: Runner) -> None:
    calls = {
        name: call for name, call in SUMS.items() if call.dilation == 1 and "uneven" not in name
    }

    def write(call: Call, n: int) -> str:
        how = f"{list(call.weights[2:])}, stride = {list(call.strides)}"
        how += f", padding = {[list(pair) for pair in call.pads]}"
        mean = f"avg_pool2d(x{n}, {how}, count_include_pad = false)"
        return f"max_pool2d(x{n} * w{n}[0, 0, 0, 0], {how}) + {mean}"

    inputs = drawn(calls)
    for found in run(device_runner, program(calls, write), inputs):
        for n, (name, call) in enumerate(calls.items()):
            x, w = inputs[f"x{n}"], inputs[f"w{n}"]
            largest = windows_of(x * w[0, 0, 0, 0], call, -np.inf).max((2, 3))
            inside = windows_of(np.ones(call.image), call, 0.0)
            means = (windows_of(x.astype(np.float64), call, 0.0) * inside).sum((2, 3))
            want = largest + means / inside.sum((2, 3))
            bound = 8.0 * (w[0].size + 3) * EPSILON
            assert np.max(np.abs(found[f"y{n}"] - want)) <= bound, name


def test_nan_and_infinities_pass_through_copied_planes(device_runner: Runner) -> None:
    """Padding is never the largest element, and what lies beside a row is not read as its own."""
    text = """
graph g(x: f32[2, 7, 7], w: f32[2, 1, 3, 3]) {
  image = expand_dims(x, 0)
  a = max_pool2d(image, 3, stride = 1, padding = 1)
  b = conv2d(image, w, padding = 1, groups = 2)
  return a, b
}
"""
    x = np.full((2, 7, 7), -np.inf, np.float32)
    x[1] = 1.0
    x[1, 3, 6], x[1, 5, 0] = np.nan, np.inf
    inputs = {"x": x, "w": np.ones((2, 1, 3, 3), np.float32)}
    call = Call("conv2d", (1, 2, 7, 7), (2, 1, 3, 3), pads=ONE)
    image = x[None].astype(np.float64)
    with np.errstate(invalid="ignore"):
        sums = windows_of(image, call, 0.0).sum((2, 3))
        largest = windows_of(image, call, -np.inf).max((2, 3))
    for found in run(device_runner, text, inputs):
        np.testing.assert_array_equal(found["a"], largest)
        np.testing.assert_array_equal(found["b"], sums)


WORDS = {
    "a depthwise convolution": ("conv2d(x, w, padding = 1, groups = 32)", [1, 3, 3], '"planes"'),
    "large windows": ("conv2d(x, w, padding = 4, groups = 32)", [1, 9, 9], '"planes"'),
    "a convolution": ("conv2d(x, w, padding = 1)", [32, 3, 3], '"windows"'),
    "every third place": ("conv2d(x, w, stride = 3, groups = 32)", [1, 3, 3], '"planes"'),
    "windows too far apart": ("conv2d(x, w, stride = 9, groups = 32)", [1, 3, 3], '"across rows"'),
}


@pytest.mark.parametrize("name", WORDS)
def test_the_schedule_says_whether_planes_are_copied(
    name: str, mgn_opt: Callable[..., Any]
) -> None:
    call, each, word = WORDS[name]
    text = f"graph g(x: f32[1, 32, 28, 28], w: f32{[32, *each]}) {{ return y = {call} }}"
    passes = "simplify,saturate,choose-schedules"
    outcome = mgn_opt("-", "-f", "mgn", "-p", passes, "--device", "cpu", stdin=text)
    assert outcome.status == 0, outcome.stderr
    assert f"variant = {word}" in outcome.stdout


PANELS = {
    "windows over short rows": Call("conv2d", (1, 48, 7, 7), (64, 48, 3, 3), pads=ONE),
    "every second place": Call("conv2d", (1, 34, 28, 28), (32, 34, 3, 3), strides=(2, 2), pads=ONE),
    "large windows": Call(
        "conv2d", (1, 3, 40, 40), (32, 3, 7, 7), strides=(2, 2), pads=((3, 3), (3, 3))
    ),
    "single elements of two images": Call("conv2d", (2, 520, 7, 14), (96, 520, 1, 1)),
}


@pytest.mark.parametrize("target", ["opencl", "spirv"])
@pytest.mark.parametrize("name", PANELS)
def test_weights_that_are_parameters_lie_in_panels(
    name: str, target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Products of panels of weights with a few places have the value of loops. Images keep their
    channels first, whatever that costs, and vectors have 512 bits, whatever the machine has.
    """
    (tmp_path / "figures.json").write_text('{"vector_bits": 512}')
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(tmp_path / "figures.json"))
    monkeypatch.setattr(saturate, "with_best_layout", lambda graph, choose, settle: settle(graph))
    call = PANELS[name]
    text = f"""
graph g(x0: f32{list(call.image)}, r: f32[{call.weights[0]}, 1, 1]) {{
  param w0: f32{list(call.weights)} = normal(std = 0.3)
  return y = relu(conv2d(x0, w0, {attributes(call)}) + r)
}}
"""
    executable = mgn.compile(mgn.parse(text), device="cpu", target=target)
    inputs = drawn({name: call})
    random = np.random.default_rng(9)
    shift = random.uniform(-1, 1, (call.weights[0], 1, 1)).astype(np.float32)
    executable.params["w0"] = inputs["w0"]
    found = executable(x0=inputs["x0"], r=shift)["y"]
    x, w = inputs["x0"].astype(np.float64), inputs["w0"].astype(np.float64)
    want = np.maximum(convolved(x, w, call) + shift, 0.0)
    terms = w[0].size
    assert np.max(np.abs(found - want)) <= 2.0 * terms * EPSILON * 2.0 * terms
    assert "left operand in panels of 32 rows" in str(executable.report)
