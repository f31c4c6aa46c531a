"""`mgn-bench`: alone, beside peers that are there, and what it says of peers that are not."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.bench import comparison, peers
from mgn.bench.peers import Call, Subject, call_of, relative_error
from mgn.bench.translation import Rows, translated
from mgn.commands.bench import main
from tests.conftest import run_in_process

PROGRAM = """
graph mlp[B = 4](x: f32[B, 16]) {
  param w: f32[8, 16] = normal(std = 0.1)
  return y = softmax(relu(x @ w.T)), n = argmax(x, axis = 1)
}
"""
WIDE = """
fn norm(x) { return layer_norm(x, full([64], 1.5), full([64], 0.5)) }
graph g(x: f32[2, 16, 64], im: f32[1, 3, 12, 12], ids: i32[2, 16]) {
  param w: f32[96, 64] = normal(std = 0.1)
  param k: f32[4, 3, 3, 3] = normal(std = 0.1)
  param t: q8_0[100, 64] = normal(std = 0.1)
  c = conv2d(im, k, padding = 1)
  f, h = split(x, [32, 32], axis = -1)
  n = linear(x, w)
  SPARSE
  return a = sum(x, axis = -1), b = x[:, 1:3, ::2], c, d = max_pool2d(c, kernel = 2),
    e = cast(x, f16), i = concat([f, h], axis = -1), l, r, s, p = mean(x), n,
    m = attention(x, x, x, heads = 2, causal = true),
    o = pad(x, [[0, 0], [1, 1], [0, 0]], value = 0.0), u = norm(x), v = rope(x, head_dim = 32),
    q = avg_pool2d(c, kernel = 2), y = reshape(x, [32, 64]), z = embedding(ids, t),
    gw = grad(mean(n * n), w), j = take_along_axis(x, expand_dims(ids % 64, 2), axis = 2)
}
"""


SPARSE = {
    "torch": "r, s = topk(x, 2); l = argmax(x, axis = 1)",
    "tinygrad": "r = sum(x); s = max_reduce(x); l = min_reduce(x, axis = 1)",
}
"""What takes the place of `SPARSE`: tinygrad has no order of its own."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "mlp.mgn"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def subject(text: str, inputs: Mapping[str, np.ndarray]) -> Subject:
    executable = mgn.compile(mgn.parse(text), device="cpu")
    for name in executable.params.without_value:
        executable.params.initialise(name)
    return Subject(executable, inputs)


X = np.random.default_rng(0).standard_normal((4, 16), np.float32)


def test_a_graph_is_timed_alone(program: Path, tmp_path: Path) -> None:
    table = tmp_path / "times.json"
    found = run_in_process(main, [str(program), "--turns", "1", "--json", str(table)])
    assert found.status == 0, found.stderr
    head, names, row = found.stdout.splitlines()
    assert head.startswith("graph mlp on ") and "ceiling" in head
    assert names.split() == ["median", "min", "over", "mgn", "ceiling", "calls", "error"]
    assert row.split()[0] == "mgn" and "1.00x" in row
    (kept,) = json.loads(table.read_text())["rows"]
    assert kept["least"] <= kept["median"] and kept["over_mgn"] == 1 and kept["error"] is None


def test_no_turns_are_an_error(program: Path) -> None:
    found = run_in_process(main, [str(program), "--turns", "0"])
    assert found.status == 1 and "--turns takes a number of at least 1" in found.stderr


def test_a_peer_that_is_not_there_is_an_error_that_names_the_extra(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(peers.PEERS, "torch", ("nowhere", lambda _: pytest.fail("made")))
    found = run_in_process(main, [str(program), "--against", "torch"])
    assert found.status == 1 and not found.stdout
    assert "--against torch needs nowhere: python -m pip install 'mgn-compiler[bench]'" in (
        found.stderr
    )
    found = run_in_process(main, [str(program), "--against", "tensorflow"])
    assert found.status == 1 and "--against knows no 'tensorflow'; there are torch," in found.stderr


def test_what_does_not_agree_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    given = subject(PROGRAM, {"x": X})
    right = given.executable(x=X)
    wrong = {**right, "y": right["y"] + np.float32(0.01)}
    for results, said in ((right, None), (wrong, r"output 'y' differs by 0\.0")):
        call = Call(results, lambda: 0.5)
        monkeypatch.setitem(peers.PEERS, "other", ("numpy", lambda _, call=call: call))
        if said is not None:
            with pytest.raises(mgn.MgnError, match=said):
                comparison.compared(given, ["other"], turns=1)
            assert len(comparison.compared(given, ["other"], 0.5, 1)) == 2
            continue
        own, other = comparison.compared(given, ["other"], turns=1)
        assert other.median == 0.5 and other.error == 0
        assert other.over_mgn == pytest.approx(0.5 / own.median)


def test_a_failing_peer_is_an_error_of_mgn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Subject) -> Call:
        raise RuntimeError("out of luck\nand more")

    monkeypatch.setitem(peers.PEERS, "other", ("numpy", fail))
    with pytest.raises(mgn.MgnError, match="other cannot compute the graph: RuntimeError: out of"):
        call_of("other", subject(PROGRAM, {"x": X}))


NUMPY = {
    "exp": np.exp,
    "max": np.maximum,
    "div": lambda a, b: a / b,
    "sub": lambda a, b: a - b,
    "matmul": lambda a, b, transpose_a, transpose_b: a @ (b.T if transpose_b else b),
    "transpose": lambda x, perm: x.transpose(perm),
    "full": lambda shape, value, T: np.full(shape, value, T.dtype),
    "sum": lambda x, axis, keepdims: np.sum(x, axis, keepdims=keepdims),
    "max_reduce": lambda x, axis, keepdims: np.max(x, axis, keepdims=keepdims),
    "argmax": lambda x, axis, keepdims, T: np.argmax(x, axis[0]).astype(T.dtype),
}


def test_a_graph_is_translated_by_rows_and_by_decompositions() -> None:
    given = subject(PROGRAM, {"x": X})
    translation = given.translated(Rows("NumPy", NUMPY, np.asarray))
    found = dict(zip(translation.outputs, translation(X), strict=True))
    wanted = given.executable(x=X)
    assert found.keys() == wanted.keys()
    for name, array in found.items():
        assert relative_error(array, wanted[name]) < 1e-6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("graph g(x: f32[4]) { return y = sort(sin(x)) }", "for NumPy, which has no row for .*sin"),
        ("graph g(x: f32[4]) { return y = x + normal([4]) }", "draws random numbers"),
        ("state s: f32[4]\ngraph g(x: f32[4]) { s <- s + x\n return y = s - x }", "outlive a run"),
    ],
)
def test_what_a_library_has_no_row_for_is_named(text: str, message: str) -> None:
    with pytest.raises(mgn.MgnError, match=message):
        translated(mgn.parse(text).lower(), Rows("NumPy", NUMPY, np.asarray), {})


def test_a_reason_that_several_operations_have_is_said_once() -> None:
    text = "state s: f32[4]\ngraph g(x: f32[4]) { s <- s + x\n return y = s - x }"
    with pytest.raises(mgn.MgnError) as error:
        translated(mgn.parse(text).lower(), Rows("NumPy", NUMPY, np.asarray), {})
    assert str(error.value).count("outlive a run") == 1


def wide_inputs() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {
        "x": random.standard_normal((2, 16, 64), np.float32),
        "im": random.standard_normal((1, 3, 12, 12), np.float32),
        "ids": random.integers(0, 100, (2, 16)).astype(np.int32),
    }


@pytest.mark.parametrize("library", ["torch", "tinygrad"])
def test_rows_of_a_library_compute_what_mgn_does(library: str) -> None:
    pytest.importorskip(library)
    given = subject(WIDE.replace("SPARSE", SPARSE[library]), wide_inputs())
    call = call_of(library, given)
    for name, array in given.executable(**given.inputs).items():
        assert relative_error(call.results[name], array) < 2e-5, name


@pytest.mark.parametrize(
    ("found", "wanted", "error"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.25),
        ([np.nan, 1.0], [np.nan, 1.0], 0.0),
        ([np.nan, 1.0], [1.0, 1.0], np.inf),
        ([np.inf, 1.0], [np.inf, 2.0], 0.5),
        ([1.0], [1.0, 1.0], np.inf),
        ([], [], 0.0),
        ([0.5], [0.0], np.inf),
    ],
)
def test_errors_are_relative_to_the_largest_magnitude(
    found: Any, wanted: Any, error: float
) -> None:
    assert relative_error(np.array(found), np.array(wanted)) == error
