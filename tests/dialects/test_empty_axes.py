"""Axes of no elements in every position: the interpreter as NumPy, devices as the interpreter."""

import re
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of

SHAPES = [(0, 3, 4), (2, 0, 4), (2, 3, 0)]
REDUCTIONS = (
    "sum", "mean", "prod", "max_reduce", "min_reduce", "var", "logsumexp", "cumsum", "softmax",
    "log_softmax",
)  # fmt: skip
OF_ONE = (
    "gelu(x)", "x + 1.0", "reshape(x, [-1])", "x.T", "transpose(x, [2, 0, 1])",
    "concat([x, x], axis = 0)", "concat([x, x], axis = 2)", "stack([x, x], axis = 0)",
    "pad(x, [[1, 1], [0, 1], [2, 0]], 3.0)", "flip(x, axis = 1)", "tile(x, [2, 1, 3])",
    "repeat(x, 2, axis = 1)", "tril(x)", "x[:, 0:0]", "expand_dims(x, axis = 0)", "rms_norm(x)",
    "layer_norm(x)", "cast(x, i32)", "x @ x.T", "x.T @ x", 'einsum("bij,bkj->bik", x, x)',
    'einsum("bij->j", x)', 'einsum("bij,bij->", x, x)', "mse(x, x)", 'l1(x, x, reduction = "none")',
    'huber(x, x, reduction = "sum")', "bce_with_logits(x, x)", "cross_entropy(x, x)",
    "group_norm(x, groups = 1)", "instance_norm(x)", "where(x > 0.0, x, 1.0)",
    "one_hot(cast(x, i32), 5)",
    "rope(x, head_dim = 2, theta = 100.0)", "attention(x, x, x, heads = 1, causal = true)",
)  # fmt: skip
OF_TWO: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {
    "matmul(a, b)": [((0, 3), (3, 4)), ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (3, 4))],
    "linear(a, b)": [((0, 3), (4, 3)), ((2, 0), (4, 0)), ((2, 3), (0, 3))],
    "a + b": [((0, 3), (1, 3)), ((0, 1), (1, 3)), ((2, 0), (2, 1))],
    "attention(a, b, b, heads = 2)": [((0, 4), (3, 4)), ((2, 4), (0, 4)), ((2, 0), (3, 0))],
    "concat([a, b], axis = 0)": [((0, 4), (3, 4)), ((2, 0), (3, 0))],
    "cross_entropy(a, cast(b, i32))": [((0, 4), (0,)), ((2, 0, 3), (2, 0))],
    "nll(a, cast(b, i32))": [((0, 4), (0,)), ((2, 0, 3), (2, 0))],
    "embedding(cast(a, i32), b)": [((0,), (4, 3)), ((0,), (0, 3)), ((2,), (4, 0))],
    "gather(b, cast(a, i32), axis = 1)": [((0,), (4, 3)), ((2,), (0, 3)), ((0,), (4, 0))],
    "take_along_axis(a, cast(b, i32))": [((0, 3), (0, 2)), ((2, 0, 3), (2, 0, 4))],
    "take_along_axis(a, cast(b, i32), axis = 0)": [((3, 0), (2, 0)), ((0, 2), (0, 2))],
    "layer_norm(a, b, b)": [((0, 4), (4,)), ((2, 0), (0,)), ((2, 0, 4), (0, 4))],
    'einsum("bqd,bkd->bqk", a, b)': [((1, 0, 3), (1, 4, 3)), ((1, 4, 0), (1, 5, 0))],
    "rope(a, head_dim = 4, theta = 10.0) * sum(b)": [((0, 4), (1,)), ((3, 0), (1,))],
}


def all_cases() -> list[tuple[str, dict[str, tuple[int, ...]]]]:
    of_axes = [
        (f"{name}(x, axis = {axis})", {"x": shape})
        for name in REDUCTIONS
        for axis in (0, 1, 2, "none")
        for shape in SHAPES
        if axis != "none" or "softmax" not in name
    ]
    of_one = [(call, {"x": shape}) for call in OF_ONE for shape in SHAPES]
    of_two = [(call, {"a": a, "b": b}) for call, pairs in OF_TWO.items() for a, b in pairs]
    return of_axes + of_one + of_two


CASES = all_cases()


def one_program() -> tuple[str, dict[str, np.ndarray]]:
    """A graph of all cases, each with inputs of its own."""
    inputs: dict[str, np.ndarray] = {}
    results: list[str] = []
    for n, (call, shapes) in enumerate(CASES):
        for name, shape in shapes.items():
            inputs[f"{name}{n}"] = np.ones(shape, np.float32)
            call = re.sub(rf"\b{name}\b", f"{name}{n}", call)
        results.append(f"r{n} = {call}")
    given = ", ".join(f"{name}: f32{list(array.shape)}" for name, array in inputs.items())
    return f"graph g({given}) {{ return {', '.join(results)} }}", inputs


@pytest.fixture(scope="module")
def meant() -> dict[str, np.ndarray]:
    text, inputs = one_program()
    (graph,) = graphs_of(mgn.parse(text).lower())
    with np.errstate(all="ignore"):
        return Interpreter().run(graph, inputs)


@pytest.mark.parametrize("target", ["opencl", "spirv"])
def test_a_device_gives_what_the_interpreter_does(target: str, meant: Any) -> None:
    text, inputs = one_program()
    found = mgn.compile(mgn.parse(text), target=target)(**inputs)
    for n, (call, shapes) in enumerate(CASES):
        np.testing.assert_allclose(found[f"r{n}"], meant[f"r{n}"], 1e-5, err_msg=f"{call} {shapes}")


NUMPY = {
    "sum": np.sum, "mean": np.mean, "prod": np.prod, "var": np.var, "cumsum": np.cumsum,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
def test_the_interpreter_gives_what_numpy_does(meant: Any) -> None:
    for n, (call, shapes) in enumerate(CASES):
        match = re.fullmatch(r"(\w+)\(x, axis = (\w+)\)", call)
        if match is None or match[1] not in NUMPY:
            continue
        axis = None if match[2] == "none" else int(match[2])
        wanted = NUMPY[match[1]](np.ones(shapes["x"], np.float32), axis=axis)
        np.testing.assert_array_equal(meant[f"r{n}"], wanted, f"{call} {shapes}")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("argmax(x, axis = 1)", "argmax: the extreme element of an empty axis has no index"),
        ("argmin(x)", "argmin: the extreme element of an empty axis has no index"),
        ("gather(x, ids, axis = 1)", "gather from an empty axis"),
        ("take_along_axis(x, expand_dims(ids, 1))", "take_along_axis from an empty axis"),
        ("embedding(ids, x.T)", "embedding: gather from an empty axis"),
        ("cross_entropy(x, ids)", "class ids need at least one class"),
    ],
)
def test_what_has_no_answer_is_an_error_at_its_place(call: str, message: str) -> None:
    with pytest.raises(mgn.MgnError, match=rf":1:\d+: error: (\w+: )?.*{message}"):
        mgn.parse(f"graph g(x: f32[2, 0], ids: i32[2]) {{ return y = {call} }}").lower()
