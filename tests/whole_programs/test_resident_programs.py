"""Programs whose kernels run in one launch give the bits that separate launches give.

On a CPU a resident launch has one work-group, so that no group waits for another: what is tested is
the order of stages, their places, their local memory, and the barriers of the group. On a GPU, by
`pytest -m gpu`, the barriers of the device are tested too, ten thousand times.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.codegen.opencl import resident
from mgn.codegen.signature import RESIDENT
from mgn.runtime.errors import BuildError
from mgn.runtime.launching import programs
from mgn.runtime.location import CACHE_VARIABLE, FIGURES_VARIABLE
from tests.conftest import DEVICE_VARIABLE, ROOT

pytestmark = pytest.mark.gpu

DEVICE = os.environ.get(DEVICE_VARIABLE, "cpu")
RUNS = 10_000 if DEVICE == "gpu" else 2

CLASSIFIER = """
graph classify[B = 5](x: f32[B, 70], labels: i32[B]) {
  param w: f32[64, 70] = he_normal()
  param v: f32[10, 64] = he_normal()
  h = gelu(x @ w.T)
  y = softmax(h @ v.T)
  loss = mean(cross_entropy(h @ v.T, labels, check = true))
  return y = y, s = cumsum(h, axis = 1), k = argmax(y, axis = -1), loss = loss
}
"""

IMAGES = """
graph images(x: f32[2, 3, 9, 11]) {
  param w: f32[4, 3, 3, 3] = he_normal()
  h = relu(conv2d(x, w, padding = 1))
  m = mean(h, axis = [2, 3])
  return p = max_pool2d(h, 2), m = m, o = sort(m)
}
"""


@pytest.fixture(autouse=True)
def cheap_barriers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device on which every launch that may be merged is."""
    path = tmp_path / "figures.json"
    path.write_text(json.dumps({"barrier_cost": 1e-9, "launch_cost": 1e-3}))
    monkeypatch.setenv(FIGURES_VARIABLE, str(path))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape, np.float32)


CASES = {
    "classifier": (CLASSIFIER, {"x": normal(5, 70), "labels": np.arange(5, dtype=np.int32)}),
    "images": (IMAGES, {"x": normal(2, 3, 9, 11)}),
}


def both(program: Any, **options: Any) -> tuple[Any, Any]:
    """The program compiled with launches merged, and with each kernel a launch of its own."""
    made = [
        mgn.compile(program, device=DEVICE, resident=resident, **options)
        for resident in ("auto", "off")
    ]
    return made[0], made[1]


@pytest.mark.parametrize("inlined", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_a_program_has_the_bits_of_separate_launches(
    case: str, inlined: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "MOST_INLINED", 10_000 if inlined else 0)
    text, inputs = CASES[case]
    merged, apart = both(mgn.parse(text))
    assert merged.report.merged and not apart.report.merged
    assert len(merged.report.kernels) < len(apart.report.kernels)
    assert sum(item.stages for item in merged.report.merged) <= len(apart.report.kernels)
    wanted = {name: value.tobytes() for name, value in apart(**inputs).items()}
    for _ in range(RUNS):
        found = merged(**inputs)
        assert {name: value.tobytes() for name, value in found.items()} == wanted


def test_states_are_written_as_by_separate_launches() -> None:
    program = mgn.parse((ROOT / "examples" / "cached_decoder.mgn").read_text(encoding="utf-8"))
    merged, apart = both(program, graph=["decode"])
    assert merged["decode"].report.merged
    token = np.array([3], np.int32)
    for _ in range(3):
        found = [exe["decode"](token=token)["next"] for exe in (merged, apart)]
        assert found[0].tobytes() == found[1].tobytes()
        token = found[0]
    assert {*merged.state} == {*apart.state}
    for name in merged.state:
        assert merged.state[name].tobytes() == apart.state[name].tobytes()


def test_a_failing_check_leaves_states_alone() -> None:
    text = """
    graph step(x: f32[4, 3], labels: i32[4]) {
      state seen: f32[]
      y = mean(cross_entropy(softmax(x), labels, check = true))
      seen <- seen + sum(x) * y
      return y = y
    }
    """
    merged, _ = both(mgn.parse(text))
    good = {"x": np.ones((4, 3), np.float32), "labels": np.zeros(4, np.int32)}
    merged(**good)
    before = merged.state["seen"].copy()
    with pytest.raises(mgn.MgnError, match="none of its 3 classes"):
        merged(x=good["x"], labels=np.full(4, 7, np.int32))
    assert merged.state["seen"] == before


def test_a_cpu_merges_where_that_is_asked_for_and_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product of a core's milliseconds stays a launch that all cores share."""
    if DEVICE == "gpu":
        pytest.skip("a GPU merges without being asked")
    text = """
    graph g(x: f32[1, 600], big: f32[1000, 1000]) {
      param w: f32[600, 600] = he_normal()
      h = cumsum(softmax(tanh(x @ w)), axis = 1)
      return y = sort(h), z = tanh(big @ big)
    }"""
    inputs = {"x": normal(1, 600), "big": normal(1000, 1000)}
    figures = {"launch_cost": 1e-5, "compute_units": 4, "rates": {"f32": 1e11}}
    Path(os.environ[FIGURES_VARIABLE]).write_text(json.dumps(figures))
    auto, on = (mgn.compile(mgn.parse(text), device=DEVICE, resident=x) for x in ("auto", "on"))
    assert not auto.report.merged
    (merged,) = on.report.merged
    count = len(auto.report.kernels)
    assert 2 <= merged.stages < count and len(on.report.kernels) == count - merged.stages + 1
    apart = [item for item in on.report.kernels if item.kind != "resident"]
    assert any("matmul" in item.operations and item.work.operations > 1e9 for item in apart)
    wanted = auto(**inputs)
    for name, found in on(**inputs).items():
        assert found.tobytes() == wanted[name].tobytes(), name
    monkeypatch.setenv("MGN_RESIDENT", "off")
    assert not mgn.compile(mgn.parse(text), device=DEVICE, resident="on").report.merged


def test_stages_on_a_cpu_have_more_local_memory_than_others() -> None:
    """Packed panels of a product take more than NVIDIA's compiler lets a program declare."""
    if DEVICE == "gpu":
        pytest.skip("it is a CPU's local memory")
    text = """
    graph g(x: f32[32, 784]) {
      param a: f32[512, 784] = he_normal()
      param b: f32[10, 512] = he_normal()
      return y = gelu(x @ a.T) @ b.T
    }"""
    merged, apart = (mgn.compile(mgn.parse(text), device=DEVICE, resident=x) for x in ("on", "off"))
    assert merged.report.merged
    inputs = {"x": normal(32, 784)}
    assert merged(**inputs)["y"].tobytes() == apart(**inputs)["y"].tobytes()


def test_a_word_that_is_no_residency_is_an_error() -> None:
    with pytest.raises(mgn.MgnError, match="unknown residency 'yes'; there are auto, on, off"):
        mgn.compile(mgn.parse(IMAGES), device=DEVICE, resident="yes")


def test_kernels_run_apart_where_the_driver_refuses_them_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = programs.build_source

    def refusing(context: Any, handle: Any, source: str, options: Any) -> Any:
        if source.startswith(RESIDENT):
            raise BuildError("too large")
        return plain(context, handle, source, options)

    monkeypatch.setattr(programs, "build_source", refusing)
    monkeypatch.setenv(CACHE_VARIABLE, "off")
    text, inputs = CASES["classifier"]
    exe = mgn.compile(mgn.parse(text), device=DEVICE)
    assert not exe.report.merged and np.isfinite(exe(**inputs)["loss"])
