"""Rows of huge, tiny and mixed numbers: fused kernels are finite where their definition is."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of

LARGEST = float(np.finfo(np.float32).max)
CALLS = (
    "softmax(x)", "softmax(x, axis = 0)", "softmax(x * 0.125)", "log_softmax(x)", "logsumexp(x)",
    "logsumexp(x, axis = 0)", 'cross_entropy(x, ids, reduction = "none")', "rms_norm(x)",
    "rms_norm(x, w)", "linear(rms_norm(x, w), v)", "rms_norm(x * 0.5 + x, w)",
    "exp(x - max_reduce(x, axis = 1, keepdims = true))",
)  # fmt: skip


def hard_rows(length: int) -> np.ndarray:
    """Rows whose sums, squares or exponentials overflow, vanish or cancel."""
    rng = np.random.default_rng(length)
    usual = rng.standard_normal(length)
    hidden = usual.copy()
    hidden[7] = -np.inf
    rows = [
        np.full(length, LARGEST), np.full(length, -LARGEST),
        np.where(np.arange(length) % 2, LARGEST, -LARGEST), usual * 1e37, usual * 1e-37,
        usual * 10.0 ** rng.uniform(-38, 38, length), np.full(length, 5.0), hidden,
        np.full(length, 1e-45), usual * 1e18 + 1e19,
    ]  # fmt: skip
    return np.clip(rows, -np.inf, LARGEST).astype(np.float32)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("figures", [{}, {"kind": "gpu"}], ids=["cpu", "forms for a GPU"])
@pytest.mark.parametrize("length", [200, 5000])
def test_a_fused_kernel_does_not_overflow_where_its_definition_does_not(
    length: int, figures: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "figures.json"
    path.write_text(json.dumps(figures))
    monkeypatch.setenv("MGN_DEVICE_FIGURES", str(path))
    rng = np.random.default_rng(0)
    arrays = {
        "x": hard_rows(length),
        "ids": rng.integers(0, length, 10).astype(np.int32),
        "w": rng.standard_normal(length).astype(np.float32),
        "v": rng.standard_normal((16, length)).astype(np.float32),
    }
    results = ", ".join(f"r{number} = {call}" for number, call in enumerate(CALLS))
    given = f"x: f32[10, {length}], ids: i32[10], w: f32[{length}], v: f32[16, {length}]"
    module = mgn.parse(f"graph g({given}) {{ return {results} }}")
    (graph,) = graphs_of(module.lower())
    wanted = Interpreter().run(graph, arrays)
    found = mgn.compile(module, device=os.environ.get("MGN_TEST_DEVICE", "cpu"))(**arrays)
    for number, call in enumerate(CALLS):
        want = wanted[f"r{number}"]
        scale = np.abs(want[np.isfinite(want)]).max(initial=0) if "linear" in call else 0
        np.testing.assert_allclose(
            found[f"r{number}"], want, 1e-4, max(1e-30, 1e-6 * scale), err_msg=call
        )
