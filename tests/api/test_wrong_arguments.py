"""Wrong arguments of the public calls: a message of mgn's, or a TypeError, and no other error."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mgn
from mgn import nn, ops
from mgn.dialects.kernel.device import DEVICES

TEXT = """
graph g[B = 4](x: f32[B, 8], k: i32[B]) {
  param w: f32[8, 8] as "weight" = normal(std = 0.5)
  return y = relu(x @ w), z = k + 1
}
"""
X, K = np.ones((4, 8), np.float32), np.zeros(4, np.int32)
EXE: list[mgn.Executable] = []


def exe() -> mgn.Executable:
    if not EXE:
        EXE.append(mgn.compile(mgn.parse(TEXT), device="cpu"))
    return EXE[0]


class Lying:
    """Says that it is an array."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("not today")


WRONG_ARRAYS = {
    "object": (X.astype(object), "has dtype object"),
    "big-endian": (X.astype(">f4"), "has dtype >f4"),
    "without axes": (np.float32(1), "has shape []"),
    "of 64 axes": (np.ones((1,) * 64, np.float32), "has shape [1, 1"),
    "empty": (np.ones((0, 8), np.float32), "has shape [0, 8]"),
    "masked": (np.ma.masked_array(X, mask=X > 0), "is a masked array"),
    "ragged": ([[1, 2], [3]], "is no array but list: setting an array element"),
    "lying": (Lying(), "is no array but Lying: not today"),
    "structured": (np.zeros((4, 8), [("a", "f4")]), "has dtype [('a', '<f4')]"),
    "nothing": (None, "is no array of numbers but NoneType"),
    "text": ("ones", "is no array of numbers but str"),
    "texts": (["1", "2"], "is no array of numbers but list"),
}


def test_arrays_without_names_are_an_error_that_shows_the_names() -> None:
    with pytest.raises(mgn.MgnError, match=r"give the inputs of g by name: \(x=…, k=…\)"):
        exe()(X, K)


def test_a_parameter_without_a_value_is_neither_read_nor_saved(tmp_path: Path) -> None:
    text = (
        "graph g(x: f32[4]) { param w: f32[4]\n param v: f32[4] = ones()\n return y = x * w * v }"
    )
    unset = mgn.compile(mgn.parse(text), device="cpu")
    message = "parameter 'w' has no value; load or set it first"
    with pytest.raises(mgn.MgnError, match=message):
        unset.params["w"]
    with pytest.raises(mgn.MgnError, match=message):
        unset.save_params(tmp_path / "w.safetensors")
    assert not (tmp_path / "w.safetensors").exists()
    np.testing.assert_array_equal(unset.params["v"], np.ones(4, np.float32))
    unset.params["w"] = np.zeros(4, np.float32)
    np.testing.assert_array_equal(unset.params["w"], np.zeros(4, np.float32))


def test_several_graphs_are_called_by_name_and_one_that_is_not_there_is_a_key_error() -> None:
    text = "graph a(x: f32[2]) { return y = x }\ngraph b(x: f32[2]) { return y = x + 1 }"
    both = mgn.compile(mgn.parse(text), graph=["a", "b"], device="cpu")
    with pytest.raises(mgn.MgnError, match=r"called by their names, such as program\['a'\]"):
        both(x=np.zeros(2, np.float32))
    with pytest.raises(mgn.MgnError, match="there is no graph 'c'; there are a, b"):
        both["c"]
    assert both.get("c") is None and both.get("a") is both["a"]


def test_a_program_without_graphs_says_so() -> None:
    with pytest.raises(mgn.MgnError, match="the program has no graph"):
        mgn.compile(mgn.parse("const A = 1"), device="cpu")


@pytest.mark.parametrize("kind", WRONG_ARRAYS)
def test_a_wrong_array_is_named_with_what_is_wrong(kind: str) -> None:
    value, message = WRONG_ARRAYS[kind]
    with pytest.raises(mgn.MgnError) as error:
        exe()(x=value, k=K)
    assert str(error.value).startswith(f"input 'x' {message}")
    with pytest.raises(mgn.MgnError) as error:
        exe().params["weight"] = value
    assert str(error.value).startswith(f"parameter 'weight' {message}")


@pytest.mark.parametrize(
    ("value", "way"),
    [
        (np.float64(2.5), "not int32 (i32[]); convert it with .astype(np.int32)"),
        ([1.5], "not int32 (i32[]); np.asarray(…, np.int32) converts it"),
        (2.5, "input 'i' is 2.5, which i32 does not hold"),
        (2**40, "input 'i' is 1099511627776, which i32 does not hold"),
        (True, "input 'i' is True, which i32 does not hold"),
    ],
)
def test_what_helps_is_told_by_what_was_given(value: Any, way: str) -> None:
    program = mgn.compile(mgn.parse("graph g(i: i32) { return y = i + 1 }"), device="cpu")
    with pytest.raises(mgn.MgnError) as error:
        program(i=value)
    assert str(error.value).endswith(way)


@pytest.mark.parametrize("value", [3, 3.0, True])
def test_a_number_is_no_array(value: Any) -> None:
    """It was said that an f32[4] did not hold 3.0."""
    program = mgn.compile(mgn.parse("graph g(x: f32[4]) { return y = x + 1 }"), device="cpu")
    with pytest.raises(mgn.MgnError) as error:
        program(x=value)
    assert str(error.value) == (
        f"input 'x' is {value}, not an array of shape [4] (f32[4]); "
        "np.full([4], …, np.float32) is an array of one number"
    )


@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16"])
def test_a_number_that_is_too_large_is_not_infinite(element: str) -> None:
    program = mgn.compile(
        mgn.parse(f"graph g(a: {element}) {{ return y = a * 1.0 }}"), device="cpu"
    )
    assert np.isposinf(program(a=float("inf"))["y"])
    assert np.isnan(program(a=float("nan"))["y"])
    if element != "f16":
        assert float(program(a=2**70)["y"]) == 2.0**70
    too_large: list[Any] = [10**400, *([] if element == "f64" else [1e300]), *[10**5000]]
    for value in [*too_large, *([2**70] if element == "f16" else [])]:
        with pytest.raises(mgn.MgnError, match=r"is (1e\+300|a number|11805).* does not hold"):
            program(a=value)


def test_arrays_that_only_lie_otherwise_in_memory_are_taken() -> None:
    unaligned = np.frombuffer(b"\0" + X.tobytes(), np.uint8)[1:].view(np.float32).reshape(4, 8)
    read_only = X.copy()
    read_only.flags.writeable = False
    expected = exe()(x=X, k=K)["y"]
    turned = np.ones((8, 4), np.float32).T
    for value in (unaligned, read_only, turned, X[::-1, ::-1], np.broadcast_to(X[0], (4, 8))):
        assert np.array_equal(exe()(x=value, k=K)["y"], expected)


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({1: X}, "there is no input 1; names are texts"),
        ({None: X}, "there is no input None; names are texts"),
        ({("x",): X}, "there is no input ('x',)"),
        ({"xx": X}, "there is no input 'xx'; did you mean 'x'?"),
        ({"x" * 100_000: X}, "there is no input 'xxx"),
        ({"\x1b[31m": X}, "there is no input '\ufffd[31m'"),
        (dict.fromkeys(range(100), X), "and 88 more that there are not"),
        (dict, "inputs are arrays by name, not type"),
        ([X], "inputs are arrays by name, not list"),
        (3, "inputs are arrays by name, not int"),
    ],
)
def test_inputs_under_wrong_names_are_told(inputs: Any, message: str) -> None:
    with pytest.raises(mgn.MgnError) as error:
        exe().run(inputs)
    assert message in str(error.value) and len(str(error.value)) < 2_000


def test_a_parameter_that_there_is_not_is_a_key_error_with_a_hint() -> None:
    for act in (lambda: exe().params["weigth"], lambda: exe().params.initialise("weigth")):
        with pytest.raises(KeyError) as error:
            act()
        assert isinstance(error.value, mgn.MgnError)
        assert str(error.value) == "there is no parameter 'weigth'; did you mean 'weight'?"
    with pytest.raises(mgn.MgnError, match="there is no parameter 3"):
        exe().params[3] = X  # pyright: ignore[reportArgumentType]
    assert exe().params.get("nowhere") is None


PATHS: dict[str, Callable[[Any], Any]] = {
    "load_params": lambda path: exe().load_params(path),
    "save_params": lambda path: exe().save_params(path),
    "explain": lambda path: exe().explain(path),
    "trace": lambda path: (exe().run({"x": X, "k": K}, profile=True), exe().trace(path)),
    "load_package": mgn.load_package,
    "parse_file": mgn.parse_file,
}


@pytest.mark.parametrize("call", PATHS)
def test_a_path_that_is_none_is_told(call: str, tmp_path: Path) -> None:
    for path in ("a\0b.npz", "\ud800.npz", "a" * 5_000 + ".npz", "/nowhere/x.npz", str(tmp_path)):
        with pytest.raises(mgn.MgnError):
            PATHS[call](path)
    for path in (None, 3, [], object()):
        with pytest.raises(TypeError, match="path"):
            PATHS[call](path)


@pytest.mark.parametrize(
    "options",
    [
        {"tune": 10**400},
        {"tune": float("inf")},
        {"seed": -(10**5_000)},
        {"dims": {"B": 10**30}},
        {"dims": {3: 4}},
        {"device": "cpu\0"},
        {"graph": "\ud800"},
    ],
)
def test_options_out_of_all_bounds_are_told(options: dict[str, Any]) -> None:
    with pytest.raises(mgn.MgnError):
        mgn.compile(mgn.parse(TEXT), **{"device": "cpu", **options})


def test_a_device_with_a_figure_that_cannot_be_is_told() -> None:
    device = DEVICES["cpu"].with_figures(bandwidth=-1.0)
    with pytest.raises(mgn.MgnError, match="the description of 'cpu': bandwidth must be"):
        mgn.optimize(mgn.parse(TEXT), device=device)


@pytest.mark.parametrize("value", [3, "B", ["B"], {1}])
def test_dimensions_that_are_no_mapping_are_a_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="'dims' takes sizes by name"):
        mgn.parse(TEXT).lower("g", value)


def test_a_package_for_a_device_that_is_no_selector_is_a_type_error(tmp_path: Path) -> None:
    (tmp_path / "x.mgnpkg").write_bytes(b"")
    with pytest.raises(TypeError, match="'device' takes a selector, not int"):
        mgn.load_package(tmp_path / "x.mgnpkg", device=3)  # pyright: ignore[reportArgumentType]


BUILDING: dict[str, Callable[[Any, Any], Any]] = {
    "a graph's name": lambda g, x: mgn.graph(3),  # pyright: ignore[reportArgumentType]
    "an empty name": lambda g, x: mgn.graph(""),
    "an input's name": lambda g, x: g.input(["a"], "f32"),
    "an input's type": lambda g, x: g.input("a", 3),
    "a type of endless size": lambda g, x: g.input("a", f"f32[{'9' * 5_000}]"),
    "a parameter's name": lambda g, x: g.param(b"w", "f32[2]"),
    "a parameter's initialiser": lambda g, x: g.param("w", "f32[2]", 3),
    "a number of an initialiser": lambda g, x: nn.normal("a", 1),  # pyright: ignore[reportArgumentType]
    "a huge number of an initialiser": lambda g, x: nn.constant(10**400),
    "an output": lambda g, x: g.output(z="text"),
    "a ragged constant": lambda g, x: g.constant([[1, 2], [3]]),
    "a masked constant": lambda g, x: g.constant(np.ma.masked_array([1.0], mask=[1]), "f32"),
    "a constant of text": lambda g, x: g.constant("a", "f32"),
    "a complex constant": lambda g, x: g.constant(1j, "f32"),
    "an operation's name": lambda g, x: g.call(["relu"], x),
    "an unknown operation": lambda g, x: g.call("rellu", x),
    "a huge operand": lambda g, x: ops.div(x, 10**400),
    "a huge attribute": lambda g, x: ops.layer_norm(x, x, x, eps=10**400),
    "a layer's input": lambda g, x: nn.Linear(3, 4)("text"),
    "a layer's size": lambda g, x: nn.Linear(None, 4)(x),  # pyright: ignore[reportArgumentType]
    "a layer's name": lambda g, x: nn.Linear(3, 4, name=[1]),  # pyright: ignore[reportArgumentType]
    "a part of a sequence": lambda g, x: nn.Sequential(3),  # pyright: ignore[reportArgumentType]
    "an open graph": lambda g, x: g.__enter__(),
}


@pytest.mark.parametrize("mistake", BUILDING)
def test_a_mistake_while_a_graph_is_built_points_at_the_caller(mistake: str) -> None:
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2, 3]")
        with pytest.raises(mgn.DiagnosticsError) as error:
            BUILDING[mistake](g, x)
        assert error.value.diagnostics[0].file == __file__
        g.output(y=x)


def test_nothing_is_added_to_a_graph_that_is_finished() -> None:
    with mgn.graph("g") as g:
        x = g.input("x", "f32[2]")
        g.output(y=x)
    late: list[Callable[[], Any]] = [
        lambda: g.input("z", "f32"),
        lambda: g.param("w", "f32"),
        lambda: g.output(z=x),
        lambda: x + 1.0,
        lambda: g.__enter__(),
    ]
    for act in late:
        with pytest.raises(mgn.DiagnosticsError, match="graph 'g' is finished"):
            act()
