"""What a norm multiplies its rows' elements by becomes part of the weights that follow it."""

import numpy as np
import pytest

import mgn
from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.passes.saturate import SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.saturate.memo import forget_choices
from mgn.passes.saturate.rules.patterns import PatternError
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.rules.table import RULES
from mgn.testing import check_rule
from tests.passes.saturate.saturate_programs import body_names, kernels_of

ROW = "matmul-of-normed"
RMS = """graph g(x: f32[64, 64]) {
  param s: f32[64]
  param w: f32[128, 64]
  return y = rms_norm(x, s) @ w.T
}"""
UNTURNED = RMS.replace("w: f32[128, 64]", "w: f32[64, 128]").replace("w.T", "w")
SIBLINGS = """graph g(x: f32[64, 64]) {
  param s: f32[64]
  param q: f32[64, 64]
  param k: f32[32, 64]
  param v: f32[32, 64]
  h = rms_norm(x, s)
  return y = tanh(h @ q.T) + concat([h @ k.T, h @ v.T], axis = 1)
}"""
GATED = """graph g(x: f32[128, 576]) {
  param s: f32[576]
  param gate: f32[1536, 576]
  param up: f32[1536, 576]
  param down: f32[576, 1536]
  h = rms_norm(x, s)
  return y = x + (silu(h @ gate.T) * (h @ up.T)) @ down.T
}"""
PROGRAMS = {"rms": RMS, "unturned": UNTURNED, "siblings": SIBLINGS, "gated": GATED}


def graph_of(text: str) -> GraphOp:
    return next(graphs_of(mgn.parse(text).lower()))


def rewritten(text: str, device: Device = DEVICES["cpu"]) -> tuple[GraphOp, SaturateReport]:
    graph = graph_of(text)
    return graph, saturate_graph(graph, device)


def cost_without(text: str, device: Device) -> float:
    """The cost of the choice where the row does not act."""
    taken = RULES.pop(ROW)
    try:
        return rewritten(text, device)[1].cost_after
    finally:
        RULES[ROW] = taken
        forget_choices()


def runs(graph: GraphOp) -> list[FusedKernelOp]:
    """The kernels that need an input of the graph, in order."""
    needed = set(graph.block.args)
    found: list[FusedKernelOp] = []
    for op in kernels_of(graph):
        if needed.intersection(op.operands):
            needed.update(op.results)
            found.append(op)
    return found


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_row_never_makes_a_program_dearer(program: str, device: str) -> None:
    text, described = PROGRAMS[program], DEVICES[device]
    _, report = rewritten(text, described)
    assert report.fired[ROW] > 0
    assert report.cost_after <= cost_without(text, described) * (1 + 1e-9)


@pytest.mark.parametrize("program", ["rms", "unturned", "gated"])
def test_a_norm_writes_a_number_a_row_and_its_scale_is_in_the_weights(program: str) -> None:
    graph, report = rewritten(PROGRAMS[program])
    assert report.cost_after < cost_without(PROGRAMS[program], DEVICES["cpu"])
    norm, product, *_ = runs(graph)
    rows = graph.block.args[0].type.get_shape()[0]  # pyright: ignore
    assert norm.kind.data == KernelKind.REDUCTION
    assert [value.type.get_shape() for value in norm.results] == [(rows, 1)]  # pyright: ignore
    names = body_names(product)
    assert names[names.index("matmul") + 1] == "mul"
    prepared = [op for op in kernels_of(graph) if op not in runs(graph)]
    weights = [op for op in prepared if set(op.results).intersection(product.operands)]
    assert weights and all("mul" in body_names(op) for op in weights)


def test_weights_are_scaled_and_packed_alike_where_nothing_is_remembered() -> None:
    graph, report = rewritten(GATED)
    alone = graph_of(GATED)
    found = saturate_graph(alone, DEVICES["cpu"], SaturateOptions(memoise=False))
    copies = [op for op in kernels_of(alone) if op.arranged is not None and op not in runs(alone)]
    assert any("mul" in body_names(op) for op in copies)
    assert found.cost_after == report.cost_after
    assert str(alone) == str(graph)


def test_one_scale_goes_into_the_weights_of_a_wide_product() -> None:
    eager = DEVICES["cpu"].with_figures(launch_cost=1e-3)
    graph, report = rewritten(SIBLINGS, eager)
    assert report.fired["wide-product"] == 3
    products = [op for op in kernels_of(graph) if "matmul" in body_names(op)]
    assert len(products) == 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_stay_what_they_were(program: str) -> None:
    text = PROGRAMS[program]
    before, (after, _) = graph_of(text), rewritten(text)
    rng = np.random.default_rng(2)
    declared = {
        op.sym_name.data: op for op in mgn.parse(text).lower().ops if op.name == "mgn.param"
    }
    weights = {
        name: rng.standard_normal(op.type.get_shape()) * 0.2  # pyright: ignore
        for name, op in declared.items()
    }
    inputs = {
        name: rng.standard_normal(value.type.get_shape())  # pyright: ignore
        for name, value in zip(before.input_names, before.block.args, strict=True)
    }
    wanted = Interpreter(weights, wide=True).run(before, inputs)
    found = Interpreter(weights, wide=True).run(after, inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-10, err_msg=name)


@pytest.mark.parametrize("weight", ["x.T @ x", "w + z"])
def test_a_weight_that_a_run_computes_is_not_scaled(weight: str) -> None:
    text = f"""graph g(x: f32[64, 64], z: f32[64, 64]) {{
      param s: f32[64]
      param w: f32[64, 64]
      return y = rms_norm(x, s) @ ({weight})
    }}"""
    _, report = rewritten(text)
    assert report.fired[ROW] == 0


def test_a_statistic_that_gradients_read_too_is_left_alone() -> None:
    text = """graph g(x: f32[64, 64], d: f32[64, 64]) {
      param s: f32[64]
      param w: f32[64, 64]
      r = rsqrt(mean(x * x, axis = 1, keepdims = true) + 1e-5)
      return y = (x * r * s) @ w, z = d * s * r
    }"""
    _, report = rewritten(text)
    assert report.fired[ROW] == 0
    _, report = rewritten(text.replace("d * s * r", "d * s"))
    assert report.fired[ROW] == 1


def test_a_rounded_norm_keeps_its_rounding() -> None:
    text = RMS.replace("rms_norm(x, s) @ w.T", "round_tf32(rms_norm(x, s)) @ round_tf32(w.T)")
    _, report = rewritten(text)
    assert report.fired[ROW] == 0


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ("mul(x, (y := neg(x)))", "neg(mul(x, (z := identity(x))))", "gives no names"),
        ("mul(x, (x := neg(y)))", "x", "are new"),
        ("(y := neg(x))", "x", "none is the whole's"),
        ("mul(x, (y := 2.0))", "x", "only an operation is given a name"),
    ],
)
def test_a_row_names_parts_of_its_left_side_alone(left: str, right: str, message: str) -> None:
    rule = Rule("named", left, right, RuleClass.FAST, "for the test")
    with pytest.raises(PatternError, match=message):
        rule.check()


def test_a_named_part_is_what_a_condition_and_the_right_side_mean() -> None:
    rule = Rule(
        "named",
        "mul(x, (r := abs(y)))",
        "mul(r, x)",
        RuleClass.EXACT,
        "of one reader",
        "read_once(r)",
    )
    assert rule.bound == ["x", "y", "r"]
    assert check_rule(rule).passes
