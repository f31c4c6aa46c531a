"""Operations and rules of a user's own: parsed, saturated, lowered, tested and reported."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block, SSAValue

import mgn
from mgn import nn, ops
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.mgn.user_operations import forget_operation, operation
from mgn.dialects.types import tensor
from mgn.modules.mlir_text import print_mlir
from mgn.passes.saturate import (
    PatternError,
    Rule,
    RuleClass,
    RuleError,
    forget_rule,
    register_rule,
)
from mgn.program_cache.key import NoKey, program_key
from mgn.testing import UnsoundRule, check_rule

EXACT = RuleClass.EXACT
MISH = Rule("mish", "mul(x, tanh(softplus(x)))", "mish(x)", EXACT, "the definition", "wide(x)")


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    """Two operations and a rule, for one test."""

    @operation("mish", ("x",), elementwise=True)
    def mish(b: Emitter, x: SSAValue) -> SSAValue:
        return b.mul(x, b.tanh(b.softplus(x)))

    @operation("scaled_mean", ("x", "y"), scale=2.0)
    def scaled_mean(b: Emitter, x: SSAValue, y: SSAValue, scale: float) -> SSAValue:
        return b.mul(b.mean(b.add(x, y), axis=-1), scale)

    register_rule(MISH)
    yield
    forget_rule("mish")
    forget_operation("mish")
    forget_operation("scaled_mean")


ELSEWHERE = Block(arg_types=[tensor("f32", (4,))]).args[0]

TEXT = """
graph g(x: f32[6, 40]) {
  return a = x * tanh(softplus(x)), b = mish(x), c = scaled_mean(x, x * 0.5, scale = 3.0)
}
"""


def test_the_language_the_e_graph_and_the_report_know_it() -> None:
    optimized = mgn.optimize(mgn.parse(TEXT))
    saturation = optimized.report.saturation
    assert saturation is not None and "mish 1" in str(saturation)
    operations = [name for line in optimized.report.kernels for name in line.operations]
    assert operations.count("mish") == 1 and "tanh" not in operations


def test_the_device_computes_what_the_interpreter_does() -> None:
    module = mgn.parse(TEXT)
    x = np.random.default_rng(2).standard_normal((6, 40), np.float32)
    (graph,) = graphs_of(module.lower())
    wanted = Interpreter(wide=True).run(graph, {"x": x})
    np.testing.assert_allclose(wanted["c"], 4.5 * x.mean(axis=-1, dtype=np.float64), rtol=1e-6)
    found = mgn.compile(module, device="cpu")(x=x)
    assert found["a"].tobytes() == found["b"].tobytes()
    for name, value in wanted.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


def test_its_mlir_text_reads_back(tmp_path: Path) -> None:
    module = mgn.parse(TEXT)
    path = tmp_path / "program.mlir"
    path.write_text(print_mlir(module.lower()))
    assert "mgn.scaled_mean" in path.read_text()
    reports = [mgn.optimize(program).report for program in (module, mgn.parse_file(path))]
    assert reports[0].operations_before == reports[1].operations_before


def test_the_builder_knows_it() -> None:
    with mgn.graph("built") as g:
        x = g.input("x", "f32[4, 8]")
        g.output(y=ops.mish(nn.Linear(8, 8)(x)))
    assert len(mgn.optimize(g).report.kernels) == 1


def test_its_rule_is_tried_like_the_others() -> None:
    assert check_rule(MISH).passes
    wrong = Rule("wrong", "mul(x, tanh(softplus(x)))", "neg(mish(x))", EXACT, "", "wide(x)")
    with pytest.raises(UnsoundRule, match="its sides differ on instance 1"):
        check_rule(wrong)
    idle = Rule("idle", "mish(x)", "x", EXACT, "", "integer(x)")
    with pytest.raises(UnsoundRule, match="acted on no instance"):
        check_rule(idle, most=200)


def test_what_is_compiled_with_it_is_not_kept_for_other_processes() -> None:
    with pytest.raises(NoKey, match="operations of the user's own"):
        program_key(mgn.parse(TEXT).lower(), {})


@pytest.mark.parametrize(
    ("name", "operands", "attributes", "message"),
    [
        ("mish", ("x",), {}, "'mish' is taken"),
        ("read", ("x",), {}, "'read' is taken"),
        ("for", ("x",), {}, "'for' is a word of the language"),
        ("f", ("in",), {}, "'in' is a word of the language"),
        ("f", "xy", {}, r"operands of 'f' are a sequence of names, as \('xy',\)"),
        ("f", ("x",), {"k": 2**63}, "attribute 'k' of 'f' has a default of no known kind"),
        ("no name", ("x",), {}, "'no name' is no name"),
        ("f", ("1x",), {}, "'1x' is no name"),
        ("f", ("x", "x"), {}, "two operands or attributes of 'f' have one name"),
        ("f", ("x",), {"x": 1.0}, "two operands or attributes of 'f' have one name"),
        ("f", ("x",), {"k": None}, "attribute 'k' of 'f' has a default of no known kind"),
        ("f", ("x",), {"k": ("a",)}, "attribute 'k' of 'f' has a default of no known kind"),
        ("f", ("x", "y"), {}, "the function of 'f' does not take its operands"),
        ("f", ("x",), {"k": 1.0}, "the function of 'f' does not take its operands"),
    ],
)
def test_a_wrong_declaration_is_told(
    name: str, operands: tuple[str, ...], attributes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        operation(name, operands, **attributes)(lambda b, x: x)


@pytest.mark.parametrize(
    ("build", "elementwise", "message"),
    [
        (lambda b, x: b.sum(x), True, "declared elementwise, and sum is not"),
        (lambda b, x: None, False, "its function gives no value, but NoneType"),
        (lambda b, x: 1 / 0, False, "its function fails with ZeroDivisionError: division by zero"),
        (lambda b, x: b.exp(x, x), False, "takes at most 1 arguments"),
        (lambda b, x: b.sofmax(x), False, "no operation 'sofmax'; did you mean 'softmax'?"),
        (lambda b, x: x * 2, False, r"values take no Python operators: b.mul\(x, y\)"),
        (lambda b, x: b.constants(1, "f32"), False, "did you mean 'constant'?"),
        (lambda b, x: b.call("f", x), False, "f is built from itself"),
        (lambda b, x: (x, b.exp(x)), False, "its function gives no value, but tuple"),
        (lambda b, x: ELSEWHERE, False, "its function uses a value of another call"),
        (lambda b, x: b.add(x, ELSEWHERE), False, "its function uses a value of another call"),
    ],
)
def test_a_function_that_builds_nothing_is_told_at_the_call(
    build: Callable[..., Any], elementwise: bool, message: str
) -> None:
    operation("f", ("x",), elementwise=elementwise)(build)
    try:
        with pytest.raises(mgn.DiagnosticsError, match=f"<text>:1:33: error: .*{message}"):
            mgn.parse("graph g(x: f32[4]) { return y = f(x) }").lower()
    finally:
        forget_operation("f")


def test_a_rule_that_names_a_forgotten_operation_is_told() -> None:
    forget_operation("mish")
    try:
        with pytest.raises(RuleError, match=r"names the operation 'mish', .*forget_rule\('mish'\)"):
            mgn.optimize(mgn.parse("graph g(x: f32[4]) { return y = tanh(x) }"))
        with pytest.raises(PatternError, match="unknown operation 'mish'"):
            check_rule(MISH)
    finally:
        operation("mish", ("x",), elementwise=True)(lambda b, x: b.mul(x, b.tanh(b.softplus(x))))
    with pytest.raises(ValueError, match="no operation was declared under the name 'tanh'"):
        forget_operation("tanh")


def test_another_operation_of_a_name_is_another_operation() -> None:
    """Nothing that was remembered of the first one is used for the second."""
    x = np.ones((4,), np.float32)
    for factor in (2.0, 3.0):
        operation("f", ("x",))(lambda b, x, factor=factor: b.mul(x, factor))
        try:
            module = mgn.parse("graph g(x: f32[4]) { return y = f(x) }")
            (graph,) = graphs_of(module.lower())
            assert Interpreter().run(graph, {"x": x})["y"][0] == factor
            optimized = mgn.optimize(module).module
            (graph,) = graphs_of(optimized)
            assert Interpreter().run(graph, {"x": x})["y"][0] == factor
        finally:
            forget_operation("f")


@pytest.mark.parametrize("name", ["match", "in_tanh", "leaf", "N"])
def test_names_that_the_e_graph_has_too_are_no_trouble(name: str) -> None:
    operation(name, ("x",))(lambda b, x: b.exp(x))
    try:
        text = f"graph g(x: f32[4]) {{ return y = {name}(tanh(x)) }}"
        assert len(mgn.optimize(mgn.parse(text)).report.kernels) == 1
    finally:
        forget_operation(name)
