"""A size is searched among the operations that another size of its graph was found to need: right,
near the best, and whole where the graph is another one.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

import mgn
from mgn.dialects.kernel import DEVICES
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.driver.pipelines import PIPELINES, parse_passes, run_passes
from mgn.modules.dialect_table import make_context
from mgn.passes.saturate import Saturate, SaturateOptions, SaturateReport, saturate_graph
from mgn.passes.saturate.choose_operations import LEAST, choose_operations
from mgn.passes.saturate.memo import forget_choices
from mgn.passes.saturate.sharing.chosen import ChosenOperations
from mgn.passes.saturate.sharing.names import structure_of
from tests.passes.saturate.saturate_programs import build_graph, check_same, f32, random_step

DEARER, NEAR = 1.03, 1.01
"""How many times what a whole search finds the kernels may cost: of any graph, and of a decoder."""


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    forget_choices()
    yield
    forget_choices()


@pytest.fixture
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small graphs are searched by another size, too."""
    monkeypatch.setattr("mgn.passes.saturate.choose_operations.LEAST", 0)


def operations_of(graph: GraphOp, device: str = "cpu") -> ChosenOperations | None:
    module = ModuleOp([graph.clone()])
    module.attributes["mgn.device"] = DEVICES[device].to_attribute()
    return choose_operations(module, Saturate())


def known(graph: GraphOp, device: str = "cpu") -> ChosenOperations:
    found = operations_of(graph, device)
    assert found is not None
    forget_choices()
    return found


def searched(
    graph: GraphOp, device: str = "cpu", reference: ChosenOperations | None = None
) -> tuple[GraphOp, SaturateReport]:
    after = graph.clone()
    return after, saturate_graph(after, DEVICES[device], SaturateOptions(reference=reference))


def mixers(rows: int, width: int = 32, blocks: int = 3, gated: bool = True) -> GraphOp:
    """Blocks of a mean over the rows, a norm, three products and a softmax."""

    def body(b: Emitter, x: SSAValue, *weights: SSAValue) -> SSAValue:
        for w in weights:
            h = b.rms_norm(b.sub(x, b.mean(x, axis=0, keepdims=True)))
            scores = b.softmax(b.matmul(h, h, transpose_b=True))
            mixed = b.matmul(b.matmul(scores, h), w)
            x = b.add(x, b.silu(mixed) if gated else b.gelu(mixed))
        return x

    return build_graph(body, f32(rows, width), *[f32(width, width)] * blocks)


def convolutions(size: int) -> GraphOp:
    """Images of some size, whose channels may lie last."""

    def body(b: Emitter, x: SSAValue, first: SSAValue, second: SSAValue) -> SSAValue:
        h = b.relu(b.conv2d(x, first, padding=(1, 1)))
        inner = b.relu(b.add(b.conv2d(h, second, padding=(1, 1)), h))
        return b.sum(b.conv2d(inner, second), axis=(2, 3))

    return build_graph(body, f32(2, 8, size, size), f32(16, 8, 3, 3), f32(16, 16, 3, 3))


def drawn(seed: int, operations: int, rows: int, width: int) -> GraphOp:
    """A graph of rows, whose operations are the same for other rows unless these are a width."""
    rng = random.Random(seed)
    shapes = ((rows, width), (width, rows), (rows, 1), (width,), (rows, rows), (1, width), ())
    types = [f32(*rng.choice(shapes)) for _ in range(rng.randint(2, 5))]

    def body(b: Emitter, *inputs: SSAValue) -> list[SSAValue]:
        pool = list(inputs)
        for _ in range(operations):
            pool.append(random_step(b, rng, pool))
        return [pool[-1], *rng.sample(pool, operations // 8)]

    return build_graph(body, *types)


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize("device", sorted(DEVICES))
@pytest.mark.parametrize("rows", [3, 17, 33, 96, 128, 250])
def test_what_is_found_is_right_and_near_the_best(rows: int, device: str) -> None:
    reference = known(mixers(64), device)
    after, report = searched(mixers(rows), device, reference)
    whole = searched(mixers(rows), device)[1]
    sizes = "x0 of 64×32, x1 of 32×32, x2 of 32×32, x3 of 32×32"
    assert report.among == reference.source.sizes == sizes
    assert f"those chosen for {report.among}" in str(report) and not whole.among
    assert report.candidates < whole.candidates
    assert report.cost_after <= DEARER * whole.cost_after
    check_same(mixers(rows), after)


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize("device", sorted(DEVICES))
def test_images_lie_as_at_the_other_size(device: str) -> None:
    reference = known(convolutions(16), device)
    for size in (8, 33):
        before = convolutions(size)
        module = ModuleOp([before.clone()])
        module.attributes["mgn.device"] = DEVICES[device].to_attribute()
        step = Saturate.of(SaturateOptions(reference=reference))
        step.apply(make_context(), module)
        assert step.report is not None and step.report.among and not step.report.layouts
        check_same(before, next(graphs_of(module)))


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize(
    "other", [mixers(80, gated=False), mixers(80, blocks=2)], ids=["operation", "blocks"]
)
def test_another_graph_is_searched_whole(other: GraphOp) -> None:
    reference = known(mixers(64))
    after, report = searched(other, reference=reference)
    whole, expected = searched(other)
    assert not report.among and report.cost_after == expected.cost_after
    assert str(after) == str(whole)


@pytest.mark.usefixtures("of_any_size")
def test_an_operation_that_is_not_to_be_had_leaves_the_others_narrow() -> None:
    """A mean over 64 rows is a product with a reciprocal, which one over 65 is not."""
    reference = known(mixers(64))
    assert "div-power-of-two" in reference.source.rules
    after, report = searched(mixers(65), reference=reference)
    whole, narrow = searched(mixers(65))[1], searched(mixers(128), reference=reference)[1]
    assert report.among and narrow.candidates <= report.candidates < whole.candidates
    check_same(mixers(65), after)


@pytest.mark.usefixtures("of_any_size")
def test_a_search_that_was_cut_off_is_no_reference() -> None:
    module = ModuleOp([mixers(64)])
    module.attributes["mgn.device"] = DEVICES["cpu"].to_attribute()
    assert choose_operations(module, Saturate.of(SaturateOptions(time_budget=0.0))) is None


def test_few_operations_are_no_reference() -> None:
    assert operations_of(mixers(64, blocks=1)) is None
    assert LEAST > 0 and operations_of(mixers(64, blocks=LEAST // 8)) is not None


@pytest.mark.parametrize("device", sorted(DEVICES))
@pytest.mark.parametrize("seed", range(8))
def test_drawn_graphs_are_right_and_near_the_best(seed: int, device: str) -> None:
    rng = random.Random(seed)
    operations, width = rng.randint(350, 500), rng.choice([16, 48])
    rows, others = rng.choice([64, 100, 200]), rng.choice([9, 33, 70, 150])
    reference = operations_of(drawn(seed, operations, rows, width), device)
    before = drawn(seed, operations, others, width)
    forget_choices()
    after, report = searched(before, device, reference)
    forget_choices()
    whole = searched(before, device)[1]
    assert report.cost_after <= DEARER * whole.cost_after
    check_same(before, after, seed)


MODELS = Path(__file__).resolve().parents[3] / "examples" / "models"


def decoder(folder: Path, tokens: int, precision: str) -> GraphOp:
    """Two layers of a language model, before kernels are chosen."""
    text = (MODELS / "smollm2.mgn").read_text()
    (folder / "parts.mgn").write_text((MODELS / "parts.mgn").read_text())
    layers = "num_hidden_layers = 30"
    assert layers in text
    (folder / "two.mgn").write_text(text.replace(layers, "num_hidden_layers = 2"))
    module = mgn.parse_file(folder / "two.mgn").lower("prefill", {"S": tokens})
    names = PIPELINES["inference"][: PIPELINES["inference"].index("saturate")]
    rounding = f"convert-precision{{precision={precision}}}"
    passes = ",".join(names).replace("convert-precision", rounding)
    run_passes(parse_passes(passes), module, make_context())
    return next(graphs_of(module)).clone()


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize("precision", ["f32", "tf32", "bf16"])
def test_products_are_looked_at_anew_where_rows_are_more(precision: str, tmp_path: Path) -> None:
    """For more rows weights lie the other way, and norms scale what comes after the product."""
    reference = known(decoder(tmp_path, 64, precision), "nvidia-h200")
    for tokens in (256, 512):
        before = decoder(tmp_path, tokens, precision)
        report = searched(before, "nvidia-h200", reference)[1]
        forget_choices()
        whole = searched(before, "nvidia-h200")[1]
        assert report.among and report.candidates < whole.candidates
        assert report.cost_after <= NEAR * whole.cost_after


def test_structures_differ_by_operands_and_not_by_sizes() -> None:
    def turned(b: Emitter, x: SSAValue, y: SSAValue, perm: tuple[int, ...]) -> SSAValue:
        return b.add(b.transpose(x, perm=perm), y)

    def graph(size: int, perm: tuple[int, ...]) -> GraphOp:
        types = f32(size, size, size), f32(size, size, size)
        return build_graph(lambda b, x, y: turned(b, x, y, perm), *types)

    assert structure_of(mixers(48)) == structure_of(mixers(80, width=16))
    assert structure_of(graph(4, (0, 2, 1))) == structure_of(graph(5, (0, 2, 1)))
    assert structure_of(graph(4, (0, 2, 1))) != structure_of(graph(4, (2, 1, 0)))
    assert structure_of(mixers(48)) != structure_of(mixers(48, blocks=2))
