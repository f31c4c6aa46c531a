"""What Python and error messages show of a program: short, and with the names that can be used."""

import numpy as np
import pytest

import mgn
from mgn import nn
from mgn.frontend.print_mgn import literal
from mgn.passes import saturate

OPEN = "graph f[B](x: f32[B]) { return y = relu(x) }\ngraph g(x: f32[2]) { return y = relu(x) }"


def test_a_module_with_an_unbound_dimension_shows_its_graphs() -> None:
    assert str(mgn.parse(OPEN)) == "graph f[B]\ngraph g"


def test_an_unknown_graph_is_answered_with_the_graphs_there_are() -> None:
    with pytest.raises(mgn.MgnError, match=r"no graph 'q'; the graphs are f, g"):
        mgn.parse(OPEN).lower("q")


def test_only_public_names_are_listed() -> None:
    assert set(dir(mgn)) == {*mgn.__all__, "nn", "ops"}
    assert dir(nn) == sorted(nn.__all__)
    assert all(hasattr(mgn, name) for name in dir(mgn))


def test_what_a_user_of_the_e_graph_imports_is_listed() -> None:
    names: dict[str, object] = {}
    exec("from mgn.passes.saturate import *", names)
    del names["__builtins__"]
    assert {"Rule", "RuleClass", "SaturateOptions", "register_rule", "forget_rule"} <= set(names)
    assert sorted(names) == dir(saturate)


def test_a_built_graph_and_an_optimised_one_are_shown_short() -> None:
    with mgn.graph("mlp") as g:
        x = g.input("x", "f32[2, 3]")
        g.output(y=x + g.param("w", "f32[3]"))
    assert repr(g) == "GraphBuilder(mlp(x) -> (y))"
    assert repr(mgn.optimize(g)) == "Optimized(graph='mlp', kernels=1)"
    assert repr(mgn.compile(g).params) == "Parameters(w: f32[3])"


@pytest.mark.parametrize("text", ["0.70710677", "1e-05", "0.1", "inf", "-0.0", "16777216.0"])
def test_f32_constants_are_the_shortest_text_of_the_same_bits(text: str) -> None:
    assert literal(np.array(text, np.float32)) == text


def test_f32_constants_keep_their_bits() -> None:
    bits = np.random.default_rng(0).integers(0, 0x7F800000, 5000, dtype=np.uint32)
    for value in bits.view(np.float32):
        assert np.float32(float(literal(np.array(value)))) == value
