"""What is known to be rounded: by `round_tf32`, or moved from such, and nothing else."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from xdsl.ir import Operation

import mgn
from mgn.dialects.fusion import FusedKernelOp, KernelKind
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.dialects.types import tensor
from mgn.driver.pipelines import PIPELINES, parse_passes, run_passes
from mgn.modules.dialect_table import make_context
from mgn.passes.saturate import saturate_graph
from mgn.passes.saturate.egraph import view
from mgn.passes.saturate.egraph.engine import ClassNode
from mgn.passes.saturate.egraph.roundings import rounded_classes
from mgn.passes.saturate.extraction.report import PROVED
from mgn.passes.saturate.memo import forget_choices
from tests.passes.saturate.saturate_programs import check_same

F32, F64 = (tensor(name, (4, 4)) for name in ("f32", "f64"))
"""Types of values."""

Graph = dict[int, list[ClassNode]]

H200 = DEVICES["nvidia-h200"]
SLOW = H200.with_figures(rates={"f32": 1e11})
"""A device that is slow but for its matrix unit."""


def node(name: str, *operands: int) -> ClassNode:
    return ClassNode(name, 0, 0, operands)


def rounded(nodes: Graph, value: float = 0.0, types: list | None = None) -> frozenset[int]:
    """The rounded classes where all `pad`s have a value around what they move."""
    of = types or [F32] * (max(nodes) + 1)
    return rounded_classes(nodes, of, lambda node, key: {"value": value})


def test_movement_of_rounded_values_is_rounded_in_any_order() -> None:
    nodes = {
        5: [node("reshape", 4)],
        4: [node("transpose", 3)],
        3: [node("round_tf32", 2)],
        2: [node("sum", 1)],
        1: [],
        6: [node("add", 3, 3)],
        7: [node("sum", 5), node("slice", 6)],
    }
    assert rounded(nodes) == {3, 4, 5}
    nodes[6].append(node("broadcast_to", 5))
    assert rounded(nodes) == {3, 4, 5, 6, 7}


@pytest.mark.parametrize(("value", "found"), [(0.0, {1, 2}), (1.0, {1})])
def test_zeros_around_a_rounded_value_are_rounded(value: float, found: set[int]) -> None:
    assert rounded({0: [], 1: [node("round_tf32", 0)], 2: [node("pad", 1)]}, value) == found


def test_a_matrix_unit_multiplies_no_f64_that_is_rounded() -> None:
    assert not rounded({0: [], 1: [node("round_tf32", 0)]}, types=[F64, F64])


def kernels(module: Operation, *kinds: KernelKind) -> list[FusedKernelOp]:
    return [op for op in module.walk() if isinstance(op, FusedKernelOp) and op.kind.data in kinds]


ATTENDING = KernelKind.ATTENTION, KernelKind.ATTENTION_GRADIENT
"""Kinds of the kernels of an attention."""


@pytest.mark.parametrize("heads", [(9, 3), (8, 8), (6, 2), (4, 1)])
@pytest.mark.parametrize("tokens", [128, 160])
@pytest.mark.parametrize(
    ("device", "kinds"),
    [
        (H200, ATTENDING),
        (H200.with_figures(rates={"f32": 1e13}), (*ATTENDING, KernelKind.CONTRACTION)),
    ],
    ids=["h200", "slower"],
)
def test_attention_and_its_gradient_take_rounded_values_from_memory(
    heads: tuple[int, int], tokens: int, device: Device, kinds: tuple[KernelKind, ...]
) -> None:
    """A layer's queries, keys and values are products, which write what was rounded. Where work
    without the unit is slower, all products take it, too.
    """
    width, own = heads[0] * 64, heads[1] * 64
    text = f"""graph g(x: f32[1, {tokens}, {width}]) {{
  param q: f32[{width}, {width}] = normal(std = 0.02)
  param k: f32[{own}, {width}] = normal(std = 0.02)
  param v: f32[{own}, {width}] = normal(std = 0.02)
  param o: f32[{width}, {width}] = normal(std = 0.02)
  y = attention(tanh(x @ q.T), tanh(x @ k.T), x @ v.T,
                heads = {heads[0]}, kv_heads = {heads[1]}, causal = true) @ o.T
  dq, dk, dv, d_o = grad(sum(y * y), [q, k, v, o])
  return y, dq, dk, dv, d_o
}}"""
    found = mgn.optimize(mgn.parse(text), device=device, precision="tf32")
    assert len(kernels(found.module, *ATTENDING)) == 3
    for kernel in kernels(found.module, *kinds):
        assert kernel.arranged is not None and "matrix" in kernel.arranged.entries.data, kernel


def drawn(random: Random, rows: int, depth: int, columns: int) -> str:
    """Products that share operands, which others read in another order."""
    lines = ["a = tanh(x @ w)"]
    values = {"x": (rows, depth), "a": (rows, columns)}
    for number in range(random.randrange(3, 7)):
        name, flag = f"v{number}", random.randrange(3)
        left = random.choice(list(values))
        if flag == 0:
            lines.append(f"{name} = {left}.T")
            values[name] = values[left][::-1]
        elif flag == 1:
            same = [other for other, shape in values.items() if shape[0] == values[left][0]]
            other = random.choice(same)
            lines.append(f"{name} = {left}.T @ {other} * 0.1")
            values[name] = (values[left][1], values[other][1])
        else:
            same = [other for other, shape in values.items() if shape[1] == values[left][1]]
            other = random.choice(same)
            lines.append(f"{name} = relu({left} @ {other}.T) * 0.1")
            values[name] = (values[left][0], values[other][0])
    body = "\n  ".join(lines)
    return f"""graph g(x: f32[{rows}, {depth}], w: f32[{depth}, {columns}]) {{
  {body}
  return {", ".join(name for name in values if name != "x")}
}}"""


def with_rounded_operands(random: Random, sizes: Sequence[int]) -> GraphOp:
    """A drawn graph whose products' operands are rounded to tf32."""
    rows, depth, columns = (random.choice(sizes) for _ in range(3))
    module = mgn.parse(drawn(random, rows, depth, columns)).lower("g", {})
    run_passes(parse_passes("convert-precision{precision=tf32}"), module, make_context())
    return next(graphs_of(module))


@pytest.mark.parametrize("seed", range(12))
def test_kernels_of_rounded_values_compute_what_the_program_says(seed: int) -> None:
    before = with_rounded_operands(Random(seed), [16, 33, 64, 96])
    after = before.clone()
    saturate_graph(after, SLOW)
    after.verify()
    check_same(before, after, seed)
    for kernel in kernels(after, KernelKind.CONTRACTION):
        assert kernel.arranged is not None and "matrix" in kernel.arranged.entries.data, kernel


def costs(before: GraphOp, monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """What the kernels of a graph cost where it is known what lies in memory rounded, and where
    it is not.
    """
    found: list[float] = []
    for known in (True, False):
        with monkeypatch.context() as patch:
            if not known:
                patch.setattr(view, "rounded_classes", lambda *given: frozenset[int]())
            forget_choices()
            report = saturate_graph(before.clone(), H200)
        assert report.gap <= PROVED
        found.append(report.cost_after)
    forget_choices()
    return found[0], found[1]


@pytest.mark.parametrize("seed", range(8))
def test_what_is_known_of_memory_makes_no_choice_dearer(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of products so large that a matrix unit costs less: by price it does not for small ones."""
    before = with_rounded_operands(Random(seed), [512, 577, 640, 1000, 2048])
    known, unknown = costs(before, monkeypatch)
    assert known <= unknown * (1.0 + PROVED)


MODELS = Path(__file__).resolve().parents[4] / "examples" / "models"


@pytest.mark.parametrize("rows", [1, 8])
def test_layers_are_no_dearer_for_what_is_known(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The products whose rows are scaled after them are not crowded out by those that take what is
    lying rounded.
    """
    text = (MODELS / "smollm2.mgn").read_text()
    (tmp_path / "parts.mgn").write_text((MODELS / "parts.mgn").read_text())
    layers = "num_hidden_layers = 30"
    assert layers in text
    (tmp_path / "two.mgn").write_text(text.replace(layers, "num_hidden_layers = 2"))
    module = mgn.parse_file(tmp_path / "two.mgn").lower("whole", {"B": rows, "S": 512})
    names = PIPELINES["inference"][: PIPELINES["inference"].index("saturate")]
    passes = ",".join(names).replace("convert-precision", "convert-precision{precision=tf32}")
    run_passes(parse_passes(passes), module, make_context())
    known, unknown = costs(next(graphs_of(module)), monkeypatch)
    assert known <= unknown * (1.0 + PROVED)
