"""Graphs that are compiled together, and sizes of a range, share what they make of parameters."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from benchmarks.device_memory import counted_buffers
from mgn import api
from mgn.dialects.kernel import DEVICES
from mgn.executable import Executable
from mgn.runtime.derived import Derived
from mgn.runtime.weights import save_params
from mgn.sized_executable import SizedExecutable

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")
DEPTH, WIDE = 256, 1024
on_a_cpu = pytest.mark.skipif(DEVICE == "gpu", reason="a GPU's products read no panels")

PROGRAM = f"""
    param up: f32[{WIDE}, {DEPTH}] = normal(std = 0.1)
    param down: f32[{DEPTH}, {WIDE}] = normal(std = 0.1)
    fn block(x) {{ return gelu(x @ up.T) @ down.T }}
    graph prefill[S = 32](tokens: f32[S, {DEPTH}]) {{ return y = block(tokens) }}
    graph decode(token: f32[1, {DEPTH}]) {{
      hidden = block(token)
      return y = hidden, next = hidden * 2.0
    }}
"""
MEBI = 4 * DEPTH * WIDE
"""The bytes of a weight."""


@pytest.fixture(autouse=True)
def by_figures_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether few rows read panels is a matter of price, and what is measured of a busy device may
    say that they read weights as they lie.
    """
    if DEVICE != "gpu":
        monkeypatch.setattr(api, "describe_device", lambda _: DEVICES["cpu"])


@pytest.fixture(autouse=True)
def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers without zones around them, which would be counted."""
    monkeypatch.setenv("MGN_GUARD", "off")


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, DEPTH), np.float32)


def derived(exe: Executable) -> list[Derived]:
    return [*exe.launched.memory.derived.values()]


def both_run(lm: Any) -> list[np.ndarray]:
    return [lm["prefill"](tokens=rows(32))["y"], lm["decode"](token=rows(1))["y"]]


@on_a_cpu
def test_a_prompt_and_decoding_hold_panels_once() -> None:
    with counted_buffers() as buffers:
        lm = mgn.compile(mgn.parse(PROGRAM), graph=["prefill", "decode"], device=DEVICE)
        both_run(lm)
        assert set(derived(lm["prefill"])) == set(derived(lm["decode"]))
        assert 2 * MEBI <= lm.allocated <= 2.3 * MEBI
        assert lm.allocated <= buffers.now <= 2.3 * MEBI
    alone = {
        graph: mgn.compile(mgn.parse(PROGRAM), graph=graph, device=DEVICE)
        for graph in ("prefill", "decode")
    }
    apart = both_run(alone)
    assert all(map(np.array_equal, both_run(lm), apart)), "the bits of graphs apart"


def test_values_that_are_set_or_loaded_are_seen_by_all_graphs(tmp_path: Path) -> None:
    lm = mgn.compile(mgn.parse(PROGRAM), graph=["prefill", "decode"], device=DEVICE)
    other = mgn.compile(mgn.parse(PROGRAM), graph="decode", params=lm.params)
    drawn = {name: lm.params[name] for name in lm.params}

    def assigned() -> Iterator[dict[str, np.ndarray]]:
        yield drawn
        lm.params["up"] = drawn["up"] * 2
        yield {**drawn, "up": drawn["up"] * 2}
        save_params(tmp_path / "w.safetensors", {name: -value for name, value in drawn.items()})
        lm.load_params(tmp_path / "w.safetensors")
        yield {name: -value for name, value in drawn.items()}

    for values in assigned():
        fresh = mgn.compile(mgn.parse(PROGRAM), graph=["prefill", "decode"], device=DEVICE)
        fresh.params.update(values)
        expected = both_run(fresh)
        assert all(map(np.array_equal, both_run(lm), expected))
        assert np.array_equal(other(token=rows(1))["y"], expected[1])


def test_the_programs_of_a_range_hold_panels_once() -> None:
    with counted_buffers() as buffers:
        exe = mgn.compile(
            mgn.parse(PROGRAM), graph="prefill", dims={"S": range(1, 65)}, device=DEVICE
        )
        assert isinstance(exe, SizedExecutable)
        exe.compile_all()
        for size in exe.programs:
            exe(tokens=rows(size))
        assert len(exe.programs) > 2
        arenas = sum(item.launched.memory.own_bytes for item in exe.programs.values())
        assert exe.allocated == 2 * MEBI + arenas
        assert buffers.now <= 2 * MEBI + 1.1 * arenas
    for size in (3, 40):
        alone = mgn.compile(mgn.parse(PROGRAM), graph="prefill", dims={"S": size}, device=DEVICE)
        found = exe(tokens=rows(size))["y"]
        np.testing.assert_allclose(found, alone(tokens=rows(size))["y"], rtol=1e-4, atol=1e-4)


def test_a_frozen_parameter_of_training_is_made_anew_for_steps_and_evaluation() -> None:
    text = f"""
        param frozen: f32[{DEPTH}, {DEPTH}] = normal(std = 0.1)
        param head: f32[1, {DEPTH}] = normal(std = 0.1)
        graph g(x: f32[32, {DEPTH}], t: f32[32, 1]) {{
          y = tanh(x @ tanh(frozen).T) @ head.T
          return loss = mean((y - t) * (y - t)), y = y
        }}
    """
    batch = {"x": rows(32), "t": np.ones((32, 1), np.float32)}

    def trainer() -> mgn.Trainer:
        return mgn.Trainer(mgn.parse(text), "g", frozen=["frozen"], device=DEVICE)

    first = trainer()
    first.step(batch)
    first.run_eval(batch)
    changed = -2 * first.params["frozen"]
    first.params["frozen"] = changed
    second = trainer()
    second.params.update({name: first.params[name] for name in first.params})
    assert np.array_equal(first.run_eval(batch)["y"], second.run_eval(batch)["y"])
    assert first.executable.launched.preparation.launches > 0
    assert first.step(batch)["loss"] == second.step(batch)["loss"]


@pytest.mark.parametrize("rows_", [1, 2, 3, 4, 5])
@pytest.mark.parametrize(("depth", "columns"), [(64, 64), (96, 100), (1536, 64), (4096, 257)])
def test_few_rows_read_panels_of_any_width(
    rows_: int, depth: int, columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = tmp_path / "figures.json"
    figures.write_text(json.dumps({"bandwidth": 2e10, "rates": {"f32": 4e11}}))
    if DEVICE != "gpu":  # panels by price, whatever else this machine does meanwhile
        monkeypatch.setenv("MGN_DEVICE_FIGURES", str(figures))
    text = f"""graph g(x: f32[{rows_}, {depth}], r: f32[{rows_}, {columns}]) {{
      param gate: f32[{columns}, {depth}] = normal(std = 0.1)
      param scale: f32[{depth}] = normal(std = 0.1)
      return y = r + silu(x * scale) @ gate.T, z = (x * scale) @ gate.T
    }}"""
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    assert exe.report.derived or DEVICE == "gpu", "panels"
    random = np.random.default_rng(depth + rows_)
    x = random.standard_normal((rows_, depth), np.float32)
    r = random.standard_normal((rows_, columns), np.float32)
    found = exe(x=x, r=r)
    gate, scale, wide = (
        item.astype(np.float64) for item in (exe.params["gate"], exe.params["scale"], x)
    )
    scaled = wide * scale
    for name, left, beside in (("y", scaled / (1 + np.exp(-scaled)), r), ("z", scaled, 0.0)):
        largest = np.abs(left) @ np.abs(gate).T
        assert np.all(np.abs(found[name] - (left @ gate.T + beside)) <= 2e-6 * (largest + 1))


def test_graphs_that_name_all_but_their_parameters_differently_share(device_target: str) -> None:
    text = """
        param w: f32[256, 128]
        graph first(x: f32[64, 256]) {
          scaled = tanh(w * 2.0) + 1.0
          return y = x @ scaled
        }
        graph second(input: f32[64, 256], more: f32[4]) {
          beside = exp(more)
          doubled = tanh(w * 2.0)
          weights = doubled + 1.0
          return beside = beside, result = relu(input) @ weights
        }
    """
    lm = mgn.compile(
        mgn.parse(text), graph=["first", "second"], device=DEVICE, target=device_target
    )
    assert derived(lm["first"])
    assert set(derived(lm["first"])) == set(derived(lm["second"]))
