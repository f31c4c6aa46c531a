"""Programs with derived parameters, on the device: right at first, and after parameters change."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.executable import Executable
from mgn.passes.saturate import SaturateOptions
from mgn.runtime.errors import InputError

DEVICE = os.environ.get("MGN_TEST_DEVICE", "cpu")

BLOCK = """graph block(x: f32[16, 64]) {
  param g: f32[64] = ones()
  param q: f32[32, 64] = normal(std = 0.2)
  param k: f32[48, 64] = normal(std = 0.2)
  param v: f32[16, 64] = normal(std = 0.2)
  param bq: f32[32] = normal(std = 0.2)
  param gate: f32[96, 64] = normal(std = 0.2)
  param up: f32[96, 64] = normal(std = 0.2)
  param down: f32[64, 96] = normal(std = 0.2)
  param a: f32[64, 64] = normal(std = 0.2)
  param b: f32[64, 64] = normal(std = 0.2)
  h = rms_norm(x, g)
  gated = (silu(h @ gate.T) * (h @ up.T)) @ down.T
  mixed = h @ tanh(a @ b)
  return q = tanh(h @ q.T + bq), k = sigmoid(h @ k.T), v = h @ v.T, y = gated + mixed
}"""
"""A norm's scale before siblings with and without bias, a gate, a product of two parameters."""


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device, described as one that saves every launch it can."""
    from mgn import api

    described = api.describe_device

    def dear(device: Any) -> Device:
        return described(device).with_figures(launch_cost=1e-3)

    monkeypatch.setattr(api, "describe_device", dear)


def compiled(text: str = BLOCK, **options: Any) -> Executable:
    """The program with a launch for each kernel."""
    saturation = SaturateOptions(**options)
    return mgn.compile(mgn.parse(text), device=DEVICE, saturation=saturation, resident="off")


def check(exe: Executable, text: str = BLOCK, seed: int = 0) -> None:
    """Results against the interpreter in f64, within what another order of sums may lose."""
    graph = next(graphs_of(mgn.parse(text).lower()))
    x = np.random.default_rng(seed).standard_normal((16, 64)).astype(np.float32)
    found = exe(x=x)
    parameters = {name: np.asarray(exe.params[name]) for name in exe.params}
    wanted = Interpreter(parameters, wide=True).run(graph, {"x": x})
    narrow = Interpreter(parameters).run(graph, {"x": x})
    for name, exact in wanted.items():
        lost = float(np.max(np.abs(narrow[name] - exact)))
        assert float(np.max(np.abs(found[name] - exact))) <= 16 * lost, name


def draw(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("name", ["g", "q", "k", "bq", "gate", "down", "a", "b"])
def test_results_follow_every_parameter(name: str) -> None:
    exe = compiled()
    assert exe.plan.prepare
    check(exe)
    exe.params[name] = draw(exe.params[name].shape, 5)
    check(exe)
    assert exe.params[name].flat[0] == draw(exe.params[name].shape, 5).flat[0]


@pytest.mark.usefixtures("eager")
def test_siblings_take_fewer_launches_than_they_would_apart() -> None:
    wide, apart = compiled(), compiled(prepare=False)
    assert len(wide.plan.launches) < len(apart.plan.launches)
    assert not apart.plan.prepare
    check(wide)
    check(apart)


def test_nothing_is_kept_where_that_is_asked_for() -> None:
    apart = mgn.compile(mgn.parse(BLOCK), device=DEVICE, prepare=False)
    assert not apart.plan.prepare and not apart.report.derived
    assert apart.held_bytes == sum(apart.params[name].nbytes for name in apart.params)
    check(apart)
    with pytest.raises(TypeError, match="'prepare' takes True or False, not int"):
        mgn.compile(mgn.parse(BLOCK), device=DEVICE, prepare=0)  # pyright: ignore


def test_a_product_of_parameters_is_not_computed_in_a_run() -> None:
    text = """graph g(x: f32[16, 64]) {
      param a: f32[64, 64] = normal(std = 0.2)
      param b: f32[64, 64] = normal(std = 0.2)
      return y = x @ tanh(a @ b)
    }"""
    exe = compiled(text)
    assert len(exe.plan.launches) == 1
    check(exe, text)
    derived = exe.report.derived
    assert derived[-1].parameters == ("a", "b") and derived[-1].bytes == 4 * 64 * 64
    assert exe.report.memory is not None
    assert exe.report.memory.derived == sum(item.bytes for item in derived)
    assert exe.report.prepare_seconds is not None and exe.report.prepare_seconds > 0
    assert "prepared when parameters change" in str(exe.report)
    assert "from a, b" in str(exe.report)


def test_a_result_that_parameters_alone_decide_is_prepared() -> None:
    text = """graph g(x: f32[16, 64]) {
      param a: f32[64] = normal(std = 0.2)
      return y = relu(x), s = exp(a), a = a
    }"""
    exe = compiled(text)
    assert len(exe.plan.launches) == 1
    check(exe, text)
    exe.params["a"] = draw((64,), 7)
    check(exe, text)


@pytest.mark.usefixtures("eager")
def test_loaded_parameters_reach_what_derives_from_them(tmp_path: Path) -> None:
    first, second = compiled(), compiled()
    check(first)
    check(second)
    for number, name in enumerate(first.params):
        first.params[name] = draw(first.params[name].shape, number)
    first.save_params(tmp_path / "all.safetensors")
    second.load_params(tmp_path / "all.safetensors")
    check(second)
    x = draw((16, 64), 99)
    for name, array in first(x=x).items():
        assert np.array_equal(second(x=x)[name], array)


@pytest.mark.usefixtures("eager")
def test_a_value_that_is_refused_changes_nothing() -> None:
    exe = compiled()
    check(exe)
    with pytest.raises(InputError, match="parameter 'q' has shape"):
        exe.params["q"] = np.zeros((3, 3), np.float32)
    check(exe)
