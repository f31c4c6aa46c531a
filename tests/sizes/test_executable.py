"""One executable for a range of sizes does at each size what one compiled for that size does."""

import math

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mgn
from mgn import sized_executable as sized
from mgn.dialects.mgn.structure import graphs_of
from mgn.runtime.errors import InputError
from mgn.sized_executable import SizedExecutable
from tests.whole_programs.test_states import DEVICE

PROGRAM = """
    state kept: f32[12, 4]
    state count: i32[]
    graph g[S](x: f32[S, 4], m: bool[S]) {
      param w: f32[4, 4] = normal(std = 1.0)
      h = softmax(x @ w, axis = 1)
      kept <- dynamic_update_slice(kept, h, [1, 0])
      count <- count + S
      return h, last = h[S - 1], total = sum(where(reshape(m, [S, 1]), x, 0.0), axis = 0)
    }
    graph whole[S](x: f32[S, 4]) { return y = x - max_reduce(x) }
    graph mixed[S](x: f32[S, 4]) {
      if S > 6 { return y = flip(x, axis = 0) }
      return y = x * S + 1.0
    }
    graph scalar[S](n: i32[]) { return y = sum(iota([S])) + n }
    graph whose[S](x: f32[S]) { param v: f32[S] = ones(); return y = x * v }
    graph other[B](x: f32[B]) { return y = x + 1.0 }
"""
MODULE = mgn.parse(PROGRAM)


def drawn(size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(size)
    return {"x": rng.standard_normal((size, 4)).astype(np.float32), "m": rng.random(size) > 0.5}


def ranged(graph: str, sizes: range, buckets: int = 3) -> SizedExecutable:
    made = mgn.compile(MODULE, graph=graph, dims={"S": sizes}, buckets=buckets, device=DEVICE)
    assert isinstance(made, SizedExecutable)
    return made


@pytest.fixture(autouse=True)
def priced_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs this small all have one price, so that one program would do."""

    def price(module: ModuleOp, *_: object) -> float:
        (graph,) = graphs_of(module)
        shapes = [argument.type.get_shape() for argument in graph.block.args]
        return float(sum(math.prod(shape) for shape in shapes))

    monkeypatch.setattr("mgn.program_cache.prices.price_or_recall", price)


@pytest.fixture
def poisoned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Floats of the padding are no numbers."""
    pad = sized.padded

    def poison(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        wide = pad(array, shape)
        if wide.dtype.kind == "f" and wide.shape != array.shape:
            wide[len(array) :] = np.nan
        return wide

    monkeypatch.setattr(sized, "padded", poison)


@pytest.mark.usefixtures("poisoned")
def test_every_size_gives_what_a_program_for_that_size_gives() -> None:
    exe = ranged("g", range(2, 11))
    total = 0
    assert len(exe.sizes.buckets) == 3 and exe.sizes.buckets[-1] == 10
    for size in (3, 10, 2, 7):
        before = exe.state["kept"].copy()
        given, total = drawn(size), total + size
        found = exe(**given)
        scores = given["x"] @ exe.params["w"]
        exps = np.exp(scores - scores.max(1, keepdims=True))
        h = exps / exps.sum(1, keepdims=True)
        assert found["h"].shape == (size, 4) and np.allclose(found["h"], h, atol=1e-6)
        assert np.allclose(found["last"], h[-1], atol=1e-6)
        assert np.allclose(found["total"], given["x"][given["m"]].sum(0), atol=1e-5)
        before[1 : size + 1] = found["h"]
        assert np.array_equal(exe.state["kept"], before) and exe.state["count"] == total
    assert set(exe.programs) <= set(exe.sizes.buckets)


def test_results_on_the_device_are_not_cut_but_computed_for_their_size() -> None:
    exe = ranged("g", range(2, 11), buckets=1)
    given = drawn(4)
    found = exe.run_on_device(**given)
    assert found["h"].shape == (4, 4) and set(exe.programs) == {10, 4}
    assert np.allclose(found["h"].numpy(), exe(**given)["h"], atol=1e-6)
    again = exe(x=found["h"], m=given["m"])
    assert again["h"].shape == (4, 4) and exe.ran is exe.programs[10]


def test_a_size_whose_results_depend_on_padding_has_a_program_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sized, "MOST_OWN", 2)
    exe = ranged("whole", range(1, 21))
    for size in range(1, 5):
        x = drawn(size)["x"]
        assert np.array_equal(exe(x=x)["y"], x - x.max())
    assert not exe.sizes.buckets and set(exe.programs) == {1, 3, 4}
    assert "it combines all of axis 0, and its padding" in str(exe.sizes)


def test_a_program_that_differs_at_some_sizes_is_padded_at_the_others() -> None:
    exe = ranged("mixed", range(1, 13))
    for size in (2, 4, 9):
        x = drawn(size)["x"]
        assert np.array_equal(exe(x=x)["y"], x[::-1] if size > 6 else x * size + 1)


def test_the_programs_share_parameters_and_can_be_compiled_at_once() -> None:
    exe = ranged("g", range(2, 11))
    exe.compile_all()
    assert set(exe.programs) == set(exe.sizes.buckets)
    exe.params["w"] = np.eye(4, dtype=np.float32) * 3
    held = exe.held_bytes
    assert all(item.held_bytes == held for item in exe.programs.values())
    for size in (2, 10):
        given = drawn(size)
        exps = np.exp(3 * given["x"])
        assert np.allclose(exe(**given)["h"], exps / exps.sum(1, keepdims=True), atol=1e-6)


def test_graphs_that_are_compiled_together_may_have_ranges() -> None:
    lm = mgn.compile(MODULE, graph=["g", "other"], dims={"S": range(2, 5), "B": 3}, device=DEVICE)
    assert lm["g"](**drawn(3))["h"].shape == (3, 4)
    assert np.array_equal(lm["other"](x=np.zeros(3, np.float32))["y"], np.ones(3, np.float32))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"x": (13, 4), "m": 13},
            r"has S = 13, .* for S = 2\.\.10: compile it for a range with 13",
        ),
        ({"x": (3, 4), "m": 4}, "inputs 'x' and 'm' disagree on S: 3 and 4"),
        ({"x": (3, 5), "m": 3}, r"input 'x' has shape \[3, 5\], not \[3, 4\]"),
        ({"m": 3}, r"input 'x' is missing; it is f32\[3, 4\]"),
        ({"x": (3, 4), "m": 3, "z": 1}, "there is no input 'z'"),
        ({"z": 3}, "input 'x' is missing"),
    ],
)
def test_wrong_inputs_are_refused_and_say_what_to_do(given: dict, said: str) -> None:
    exe = ranged("g", range(2, 11), buckets=1)
    types = {"m": np.bool_}
    arrays = {name: np.zeros(shape, types.get(name, np.float32)) for name, shape in given.items()}
    with pytest.raises(InputError, match=said):
        exe(**arrays)


@pytest.mark.parametrize(
    ("graph", "options", "said"),
    [
        ("g", {"dims": {"S": range(5, 5)}}, "dimension 'S' has no sizes"),
        ("g", {"dims": {"S": range(1, 10**9)}}, "dimension 'S' has 999999999 sizes"),
        ("g", {"dims": {"S": range(10**30, 0, -1)}}, "sizes in range.*, not 16777216 at most"),
        ("g", {"dims": {"S": range(-3, 5)}}, "dimension 'S' cannot be -3"),
        ("g", {"dims": {"S": range(1, 5), "T": range(1, 5)}}, "one dimension can have a range"),
        ("g", {"dims": {"T": range(1, 5)}}, "no dimension 'T'"),
        ("g", {"dims": {"S": range(1, 5)}, "buckets": 0}, "buckets takes a number from 1 to 64"),
        ("g", {"dims": {"S": range(1, 5)}, "mode": "training"}, "takes one size"),
        ("scalar", {"dims": {"S": range(1, 5)}}, "no input of graph 'scalar' has 'S'"),
    ],
)
def test_wrong_ranges_are_refused(graph: str, options: dict, said: str) -> None:
    with pytest.raises(mgn.MgnError, match=said):
        mgn.compile(MODULE, graph=graph, device=DEVICE, **options)


def test_a_parameter_whose_shape_has_the_dimension_is_refused() -> None:
    with pytest.raises(mgn.MgnError, match="parameter 'v' has another shape at other sizes"):
        ranged("whose", range(1, 5))
