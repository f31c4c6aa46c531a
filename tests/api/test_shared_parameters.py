"""Two compilations share parameters and states; checkpoints of other names and types are loaded
into a graph, from Python and by the command.
"""

import gc
import json
import weakref
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mgn
from mgn.commands.run import main
from mgn.runtime.errors import RuntimeFault, WeightsError
from mgn.runtime.weights import save_params
from tests.conftest import run_in_process
from tests.whole_programs.test_states import DEVICE

PROGRAM = """
    param w: f32[4, 4]
    state total: f32[4]
    graph product(x: f32[2, 4]) { return y = x @ w.T }
    graph added(x: f32[2, 4]) {
      total <- total + sum(x, axis = 0)
      return y = x @ w.T, total = total
    }
"""
W = np.arange(16, dtype=np.float32).reshape(4, 4) - 6.5
X = np.arange(8, dtype=np.float32).reshape(2, 4)


def test_two_compilations_share_parameters_states_and_arrays_on_the_device() -> None:
    first = mgn.compile(mgn.parse(PROGRAM), graph="added", device=DEVICE)
    first.params["w"] = W
    held = first.params.session.held_bytes
    second = mgn.compile(mgn.parse(PROGRAM), graph="added", params=first.params)
    assert second.params is first.params and held == first.params.session.held_bytes
    assert np.array_equal(first(x=X)["y"], X @ W.T)
    assert np.array_equal(second(x=X)["total"], 2 * X.sum(0))
    on_device = first.run_on_device(x=X)["y"]
    begun = on_device.begin_numpy()
    assert np.array_equal(second(x=on_device)["y"], X @ W.T @ W.T)
    assert np.array_equal(begun(), X @ W.T)
    second.params["w"] = W + 1
    assert np.array_equal(first(x=X)["y"], X @ (W + 1).T)
    alive = weakref.ref(second)
    del second
    gc.collect()
    assert alive() is None
    both = mgn.compile(mgn.parse(PROGRAM), graph=["product", "added"], params=first.params)
    assert np.array_equal(both["product"](x=X)["y"], X @ (W + 1).T)


def test_a_parameter_of_another_type_is_refused_and_nothing_is_left_behind() -> None:
    first = mgn.compile(mgn.parse(PROGRAM), graph="product", device=DEVICE)
    other = "graph g(x: f32[2]) { param v: f32[9]; param w: f32[2]; return y = x + w + sum(v) }"
    with pytest.raises(RuntimeFault, match=r"'w' is f32\[4, 4\] in one graph and f32\[2\]"):
        mgn.compile(mgn.parse(other), params=first.params)
    assert list(first.params) == ["w"]
    with pytest.raises(TypeError, match=r"'params' takes what exe\.params gives, not dict"):
        mgn.compile(mgn.parse(PROGRAM), "product", params={"w": W})  # pyright: ignore


def test_values_that_are_there_already_are_admitted_by_a_second_compilation() -> None:
    """Kernels that take parameters to be moderate are not used where one is not."""
    text = "graph g(x: f32[2, 4]) { param w: f32[4, 4]; return y = (x * 1e-30) @ w.T }"
    first = mgn.compile(mgn.parse(text), device=DEVICE)
    first.params["w"] = W * np.float32(1e37)
    second = mgn.compile(mgn.parse(text), params=first.params)
    assert np.array_equal(second(x=X)["y"], first(x=X)["y"])
    assert np.isfinite(second(x=X)["y"]).all()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of Hugging Face, in bf16."""
    arrays = {"model.w": W.astype(ml_dtypes.bfloat16), "model.rest": np.zeros(3, np.float32)}
    save_params(tmp_path / "model.safetensors", arrays)
    (tmp_path / "config.json").write_text(json.dumps({"hidden_size": 4}))
    (tmp_path / "program.mgn").write_text(PROGRAM)
    np.savez(tmp_path / "in.npz", x=X)
    return tmp_path


def test_a_checkpoint_of_other_names_and_types_is_loaded_and_the_report_tells(folder: Path) -> None:
    program = mgn.compile(mgn.parse(PROGRAM), graph=["product", "added"], device=DEVICE)
    assert program.load_params(folder, rename={"model.w": "w"}) == 1
    for name in program:
        assert "bf16 as f32: 1 ('w')" in str(program[name].report)
    alone = mgn.compile(mgn.parse(PROGRAM), graph="product", device=DEVICE)
    with pytest.raises(WeightsError, match=r"'w' .* is missing"):
        alone.load_params(folder)
    assert alone.load_params(folder, rename=r"model\.(.*)=\1", dtype="f16") == 1
    assert np.array_equal(alone(x=X)["y"], X @ W.T)
    report = alone.report.loaded
    assert report is not None and report.renamed == report.parameters == report.extra == 1
    assert "bf16 as f16 as f32: 1 ('w')" in str(report)


def test_the_command_loads_a_folder_and_tells_what_it_converted(folder: Path) -> None:
    run = [str(folder / "program.mgn"), "--graph", "product", "--inputs", str(folder / "in.npz")]
    loading = ["--params", str(folder), "--rename", r"model.(.*)=\1"]
    outcome = run_in_process(
        main, [*run, *loading, "--outputs", str(folder / "out.npz"), "--device", DEVICE]
    )
    assert outcome.status == 0, outcome.stderr
    assert "bf16 as f32: 1 ('w')" in outcome.stderr
    assert "not used by this graph: 1 array" in outcome.stderr
    assert np.array_equal(np.load(folder / "out.npz")["y"], X @ W.T)
    package = ["--emit=package", "-o", str(folder / "p.mgnpkg"), "--params-dtype", "bf16"]
    outcome = run_in_process(main, [*run[:3], *loading, *package])
    assert outcome.status == 0 and "1 of 1 parameter embedded" in outcome.stderr
    exe = mgn.load_package(folder / "p.mgnpkg", DEVICE)
    assert np.array_equal(exe(x=X)["y"], X @ W.T)
    assert exe.load_params(folder, rename={"model.w": "w"}) == 1
    outcome = run_in_process(main, [*run, "--rename", "a=b"])
    assert outcome.status == 1 and "--rename goes with --params" in outcome.stderr
