"""Literals that a float type cannot hold: they are infinite, and a warning says so."""

import warnings

import numpy as np
import pytest

import mgn
from mgn import ops

INFINITE = [
    ("f16", "x * 1e6", "1e\\+06 is inf in f16, whose largest number is 65504; cast\\(x, f32\\)"),
    ("f16", "max(x, -65520)", "-65520 is -inf in f16"),
    ("bf16", "x + 3.4e38", "3.4e\\+38 is inf in bf16"),
    ("f32", "where(x > 0.0, x, 1e39)", "1e\\+39 is inf in f32, .*; cast\\(x, f64\\)"),
]
FINITE = [("f16", "x * 65504"), ("f16", "x * inf"), ("f32", "x * 1e38"), ("f16", "softmax(x)")]


@pytest.mark.parametrize(("element", "expression", "message"), INFINITE)
def test_a_literal_that_does_not_fit_is_warned_of_at_its_place(
    element: str, expression: str, message: str
) -> None:
    with pytest.warns(UserWarning, match=rf":1:\d+: {message}"):
        mgn.parse(f"graph g(x: {element}[4]) {{ return y = {expression} }}")


@pytest.mark.parametrize(("element", "expression"), FINITE)
def test_other_literals_are_not(element: str, expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mgn.parse(f"graph g(x: {element}[4]) {{ return y = {expression} }}")


def test_the_builder_warns_too() -> None:
    with mgn.graph("g") as g, pytest.warns(UserWarning, match="1e\\+06 is inf in f16"):
        g.output(y=ops.mul(g.input("x", "f16[1]"), 1e6))
    assert np.isinf(mgn.compile(g)(x=np.ones(1, np.float16))["y"])
