"""Products of one left operand with parameters become one wide product where that pays."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import mgn
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.dialects.shapes import ShapeError
from mgn.passes.saturate import RuleClass, SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.saturate.egraph.engine import saturate_facts
from mgn.passes.saturate.egraph.wide_products import Product, WideProducts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.rule import RuleError
from mgn.testing.values import Values
from tests.passes.saturate.saturate_programs import body_names, kernels_of

H200 = DEVICES["nvidia-h200"]
EAGER = H200.with_figures(launch_cost=1e-3)
"""A device that saves every launch it can."""


def program(
    columns: Sequence[int], left: str = "4, 6", turned: bool = False, biased: bool = False
) -> str:
    """`x @ w0`, `x @ w1`, … as text; turned weights are `[columns, depth]`."""
    depth = left.split(", ")[-1]
    lines = [f"graph g(x: f32[{left}]) {{"]
    for number, size in enumerate(columns):
        shape = f"{size}, {depth}" if turned else f"{depth}, {size}"
        lines.append(f"  param w{number}: f32[{shape}]")
        product = f"matmul(x, w{number}, transpose_b = {str(turned).lower()})"
        if biased:
            lines.append(f"  param b{number}: f32[{size}]")
            product += f" + b{number}"
        lines.append(f"  y{number} = tanh({product})")
    names = ", ".join(f"y{number}" for number in range(len(columns)))
    return "\n".join([*lines, f"  return {names}", "}"])


def graph_of(text: str) -> GraphOp:
    return next(graphs_of(mgn.parse(text).lower()))


def values_of(graph: GraphOp) -> Values:
    result = saturate_facts(encode_graph(graph).facts, [], widen=True)
    return Values(graph, result)


def rewritten(text: str, device: Device = EAGER, **options: Any) -> tuple[GraphOp, SaturateReport]:
    """A graph after saturation, compared with itself before over the reals."""
    before = graph_of(text)
    after = before.clone()
    report = saturate_graph(after, device, SaturateOptions(**options))
    rng = np.random.default_rng(3)
    module = mgn.parse(text).lower()
    declared = {op.sym_name.data: op for op in module.body.block.ops if op.name == "mgn.param"}
    parameters = {
        name: rng.standard_normal(op.type.get_shape()).astype(np.float32)  # pyright: ignore
        for name, op in declared.items()
    }
    shape = before.block.args[0].type.get_shape()  # pyright: ignore
    inputs = {"x": rng.standard_normal(shape).astype(np.float32)}
    wanted = Interpreter(parameters, wide=True).run(before, inputs)
    found = Interpreter(parameters, wide=True).run(after, inputs)
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-9, atol=1e-12, err_msg=name)
    return after, report


@settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.generate])
@given(
    columns=st.lists(st.integers(1, 7), min_size=2, max_size=5),
    left=st.sampled_from(["6", "1, 6", "4, 6", "2, 3, 6"]),
    turned=st.booleans(),
    biased=st.booleans(),
)
def test_every_form_that_is_entered_has_the_value_of_its_class(
    columns: list[int], left: str, turned: bool, biased: bool
) -> None:
    values = values_of(graph_of(program(columns, left, turned, biased)))
    assert values.result.fired["wide-product"] >= len(columns)
    assert (values.result.fired["wide-product-with-biases"] >= len(columns)) is biased
    assert all(values.agree_widely(seed, RuleClass.REASSOCIATES) for seed in range(2))


@pytest.mark.parametrize("rounded", ["round_tf32(w{})", "cast(cast(w{}, bf16), f32)"])
def test_weights_that_are_rounded_alike_are_rounded_as_one(rounded: str) -> None:
    first, second = rounded.format(0), rounded.format(1)
    text = f"""
    param w0: f32[6, 3]
    param w1: f32[6, 5]
    graph g(x: f32[4, 6]) {{ return y0 = tanh(x @ {first}), y1 = tanh(x @ {second}) }}
    """
    values = values_of(graph_of(text))
    assert values.agree_widely(1, RuleClass.REASSOCIATES)
    nodes = values.result.nodes
    joined = {key for key, found in nodes.items() if any(node.name == "concat" for node in found)}
    rounding = rounded.partition("(")[0]
    assert any(
        node.name == rounding and node.operands[0] in joined
        for key in joined
        for node in nodes[key]
    )


def test_weights_that_are_rounded_differently_are_not_rounded_as_one() -> None:
    text = """
    param w0: f32[6, 3]
    param w1: f32[6, 5]
    graph g(x: f32[4, 6]) {
      return y0 = tanh(x @ round_tf32(w0)), y1 = tanh(x @ cast(cast(w1, f16), f32))
    }
    """
    values = values_of(graph_of(text))
    assert values.result.fired["wide-product"] == 2
    nodes = values.result.nodes
    joined = {key for key, found in nodes.items() if any(node.name == "concat" for node in found)}
    assert {node.name for key in joined for node in nodes[key]} == {"concat"}


def _swapped(self: WideProducts, members: Sequence[Product]) -> None:
    others = [*members[1:], members[0]]
    WIDEN(self, [_with_right(a, b) for a, b in zip(members, others, strict=True)])


def _with_right(item: Product, other: Product) -> Product:
    return Product(item.result, item.left, other.right, item.attributes)


def _off_by_one(
    self: WideProducts, wide: int, rule: str, rows: Sequence[tuple[int, ...]], entered: int
) -> None:
    SLICES(self, wide, rule, [rows[-1], *rows[:-1]], entered)


def _turned_round(
    self: WideProducts, result: int, members: Sequence[Product], biases: list[int]
) -> None:
    JOIN(self, result, members[::-1], biases)


WIDEN, SLICES = WideProducts._widen, WideProducts._slices  # pyright: ignore[reportPrivateUsage]
JOIN = WideProducts._join_products  # pyright: ignore[reportPrivateUsage]
WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "the weights in another order": ("_widen", _swapped),
    "the slices in another order": ("_slices", _off_by_one),
    "the products side by side in another order": ("_join_products", _turned_round),
    "the weights along the other axis": ("_axis", lambda self, item: -1),
    "products of different left operands": (
        "_key",
        lambda self, item: (item.attributes, self.facts.handle_types[item.left]),
    ),
    "a bias that is not the product's": (
        "_bias",
        lambda self, result: next((total, b) for sums in self.sums.values() for total, b in sums),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_variant_is_caught(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, function = WRONG[wrong]
    monkeypatch.setattr(WideProducts, name, function)
    text = """graph g(x: f32[4, 6], z: f32[4, 6]) {
      param v: f32[6, 6]
      param w: f32[6, 6]
      param a: f32[6]
      param b: f32[6]
      p = matmul(x, v, transpose_b = true) + a
      q = matmul(x, w, transpose_b = true) + b
      t = concat([q, p], axis = -1)
      return p, q, r = matmul(z, v, transpose_b = true), s = z @ w, t
    }"""
    try:
        values = values_of(graph_of(text))
    except (ShapeError, ValueError, RuleError):
        return
    assert not values.agree_widely(0, RuleClass.REASSOCIATES)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_siblings_become_one_product_of_weights_side_by_side(turned: bool, biased: bool) -> None:
    text = program([5, 5, 5], turned=turned, biased=biased)
    text = text.replace("return y0, y1, y2", "return y = y0 * y1 + y2")
    after, report = rewritten(text)
    *before, last = [body_names(kernel) for kernel in kernels_of(after)]
    names = [name for body in before for name in body if name != "transpose"]
    assert names[:2] == ["concat", "matmul"] and "matmul" not in names[2:]
    assert "concat" not in last
    assert report.fired["wide-product"] == 3


@pytest.mark.parametrize(
    ("joined", "axis", "fired"),
    [
        ("x @ v, x @ w, x @ v", 1, 1),
        ("x @ w + b, x @ v + a", 1, 1),
        ("x @ v, x @ w", 0, 0),
        ("x @ v, x @ w + b", 1, 0),
        ("x @ v, tanh(x) @ w", 1, 0),
    ],
)
def test_products_that_a_program_puts_side_by_side_are_one_product(
    joined: str, axis: int, fired: int
) -> None:
    after, report = rewritten(f"""graph g(x: f32[4, 6]) {{
      param v: f32[6, 5]
      param w: f32[6, 5]
      param a: f32[5]
      param b: f32[5]
      return y = concat([{joined}], axis = {axis})
    }}""")
    assert report.fired["joined-products"] == fired
    names = [body_names(kernel) for kernel in kernels_of(after)]
    assert not (fired and sum(body.count("matmul") for body in names) > 1)
    assert not (fired and any("slice" in body for body in names))


def test_on_a_cpu_weights_side_by_side_are_put_into_panels_once_for_all_runs() -> None:
    graph = graph_of(
        """graph g(x: f32[8, 256]) {
          param q: f32[64, 256]
          param k: f32[64, 256]
          return a = tanh(matmul(x, q, transpose_b = true)), b = matmul(x, k, transpose_b = true)
        }"""
    )
    saturate_graph(graph, DEVICES["cpu"])
    first, *rest = kernels_of(graph)
    assert sorted(body_names(first)) == ["concat", "reshape", "transpose"]
    assert [op.values["transpose_b"] for op in products_of(rest)] == [False]


def products_of(kernels: Sequence[FusedKernelOp]) -> list[TensorOp]:
    operations = [op for kernel in kernels for op in kernel.block.ops]
    return [op for op in operations if isinstance(op, TensorOp) and op.spec.name == "matmul"]


def test_a_wide_product_is_a_matter_of_its_price() -> None:
    """No launch to save, and slices that have to be copied out: then the products stay apart."""
    cheap = DEVICES["cpu"].with_figures(launch_cost=0.0)
    graph = graph_of("""graph g(x: f32[1024, 64]) {
      param v: f32[64, 64]
      param w: f32[64, 64]
      return a = x @ v, b = x @ w
    }""")
    report = saturate_graph(graph, cheap)
    assert report.fired["wide-product"] == 2
    names = [body_names(kernel) for kernel in kernels_of(graph)]
    assert sum("matmul" in body for body in names) == 2
    assert not any("concat" in body for body in names)


@pytest.mark.parametrize(
    "options",
    [{"classes": frozenset({RuleClass.EXACT})}, {"prepare": False}, {"fuse": False}],
    ids=["exact", "training", "un-fused"],
)
def test_nothing_is_put_side_by_side_where_that_is_not_wanted(options: dict[str, Any]) -> None:
    after, report = rewritten(program([4, 5]), **options)
    assert report.fired["wide-product"] == 0
    assert all("concat" not in body_names(kernel) for kernel in kernels_of(after))


def test_a_weight_that_a_run_computes_is_not_put_beside_parameters() -> None:
    text = """graph g(x: f32[6, 6]) {
      param v: f32[6, 6]
      return a = x @ v, b = x @ tanh(x)
    }"""
    _, report = rewritten(text)
    assert report.fired["wide-product"] == 0


def test_the_products_of_a_gated_block_are_read_as_slices() -> None:
    text = """graph g(x: f32[128, 256]) {
      param gate: f32[512, 256]
      param up: f32[512, 256]
      param down: f32[256, 512]
      return y = (silu(x @ gate.T) * (x @ up.T)) @ down.T
    }"""
    after, _ = rewritten(text, H200)
    names = [set(body_names(kernel)) for kernel in kernels_of(after)]
    assert names == [{"concat"}, {"matmul", "slice", "silu", "mul"}, {"matmul"}]


def test_a_wide_product_shows_a_matrix_unit_that_both_operands_are_rounded() -> None:
    text = """
    param q: f32[576, 576]
    param k: f32[192, 576]
    param v: f32[192, 576]
    graph g(x: f32[128, 576]) {
      h = round_tf32(rms_norm(x))
      a = h @ round_tf32(q).T
      b = h @ round_tf32(k).T
      return e = exp(a), y = exp(b), z = exp(h @ round_tf32(v).T)
    }
    """
    graph = graph_of(text)
    saturate_graph(graph, DEVICES["nvidia-h200"])
    (product,) = [names for names in map(body_names, kernels_of(graph)) if "matmul" in names]
    assert [name for name in product if name in ("round_tf32", "matmul")] == [
        "round_tf32",
        "round_tf32",
        "matmul",
    ]


def test_the_forms_of_an_e_graph_do_not_grow_without_end() -> None:
    values = values_of(graph_of(program([4, 5, 6, 7], turned=True)))
    assert values.result.saturated
    wide = [
        node for nodes in values.result.nodes.values() for node in nodes if node.name == "concat"
    ]
    assert 1 <= len(wide) <= 2


HALVES = """
param w: f32[{shape}]
param b: f32[{columns}]
graph g(x: f32[{left}, {depth}]) {{
  h = {product}
  h = {wide}
  up = slice(h, starts = {zeros}, stops = {below}, steps = {ones})
  gate = slice(h, starts = {half}, stops = {all}, steps = {ones})
  return y = {gated}
}}
"""


def halved(seed: int, turned: bool, most: int = 9) -> str:
    """A gated layer of a size that is drawn; turned weights are `[columns, depth]`."""
    rng = np.random.default_rng(seed)
    depth, half, rows = (int(number) for number in rng.integers(2, most, 3))
    outer = [[rows], [1, rows], [2, rows]][rng.integers(3)]
    wide = ["h", "h + b", f"reshape(h + b, [-1, {rows}, {2 * half}])"][rng.integers(3)]
    if wide.startswith("reshape"):
        outer = [outer[0] if len(outer) == 2 else 1, rows]
    zeros = [0] * len(outer)
    return HALVES.format(
        shape=f"{2 * half}, {depth}" if turned else f"{depth}, {2 * half}",
        left=", ".join(map(str, outer)),
        product=f"matmul(x, w, transpose_b = {str(turned).lower()})",
        wide=wide,
        gated=["silu(gate) * up", "gelu(gate) * up", "tanh(up) + gate"][rng.integers(3)],
        columns=2 * half,
        depth=depth,
        zeros=[*zeros, 0],
        half=[*zeros, half],
        below=[*outer, half],
        all=[*outer, 2 * half],
        ones=[1, *(1 for _ in outer)],
    )


@pytest.mark.parametrize("seed", range(12))
def test_a_parameter_whose_halves_are_taken_is_turned(seed: int) -> None:
    values = values_of(graph_of(halved(seed, turned=False)))
    assert values.result.saturated and values.result.fired["halved-product"] >= 1
    assert values.agree_widely(seed, RuleClass.REASSOCIATES)
    assert values_of(graph_of(halved(seed, turned=True))).result.fired["halved-product"] == 0


def test_what_is_no_half_of_columns_or_no_parameter_stays_as_it_is() -> None:
    taken = "slice(h, starts = [0, {}], stops = [4, {}], steps = [1, {}])"
    for inputs, start, stop, step in (
        ("x: f32[4, 6], w: f32[6, 8]", 0, 4, 1),
        ("x: f32[4, 6]", 0, 3, 1),
        ("x: f32[4, 6]", 2, 6, 1),
        ("x: f32[4, 6]", 0, 8, 2),
    ):
        declared = "" if "w:" in inputs else "param w: f32[6, 8]"
        part = taken.format(start, stop, step)
        text = f"{declared}\ngraph g({inputs}) {{\n h = x @ w\n return y = exp({part})\n }}"
        assert values_of(graph_of(text)).result.fired["halved-product"] == 0


@pytest.mark.parametrize("precision", ["f32", "tf32", "bf16"])
@pytest.mark.parametrize("seed", range(4))
def test_weights_by_rows_and_by_columns_cost_the_same_where_halves_meet(
    seed: int, precision: str
) -> None:
    costs: list[float] = []
    for turned in (False, True):
        made = mgn.optimize(
            mgn.parse(halved(seed, turned, 700)), device="nvidia-h200", precision=precision
        )
        assert isinstance(made.report.saturation, SaturateReport)
        costs.append(made.report.saturation.cost_after)
    assert costs[0] <= costs[1] * 1.01  # a copy of the weights, made when they are set
