"""Equal layers of a program are saturated once, and the e-graph is that of the whole program."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from io import StringIO

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.printer import Printer

from benchmarks.graphs import egraph_graphs
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp, ReadOp
from mgn.dialects.types import tensor
from mgn.passes.saturate import DEFAULT_CLASSES, RuleClass, saturate, saturate_graph
from mgn.passes.saturate.egraph.engine import SaturatedGraph, saturate_facts
from mgn.passes.saturate.egraph.layer_copies import saturate_layers
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.encoding.facts import Facts
from mgn.passes.saturate.encoding.repeated_layers import find_layers
from mgn.passes.saturate.memo import forget_choices
from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.rules.table import rules_of
from mgn.passes.saturate.saturate import literals_of
from tests.passes.saturate.saturate_programs import CPU, build_graph, f32, random_step

WIDTH = 8
LAYERS = 14
STEPS = 5
Layer = Callable[[Emitter, SSAValue, int], SSAValue]


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    forget_choices()
    yield
    forget_choices()


def parameter(b: Emitter, name: str, *shape: int) -> SSAValue:
    op = ReadOp(name, tensor("f32", shape or (WIDTH, WIDTH)))
    b.insert(op)
    return op.result


def repeated(layer: Layer, layers: int = LAYERS) -> GraphOp:
    """A program of layers, each of which gets what the one before computed, and its number."""

    def body(b: Emitter, x: SSAValue) -> SSAValue:
        for number in range(layers):
            x = layer(b, x, number)
        return x

    return build_graph(body, f32(WIDTH, WIDTH))


def perceptron(b: Emitter, x: SSAValue, number: int) -> SSAValue:
    return b.gelu(b.linear(x, parameter(b, f"{number}.w"), parameter(b, f"{number}.b", WIDTH)))


def gated(b: Emitter, x: SSAValue, number: int) -> SSAValue:
    h = b.rms_norm(x, parameter(b, f"{number}.n", WIDTH))
    gate, up, down = (parameter(b, f"{number}.{name}") for name in ("gate", "up", "down"))
    return b.add(x, b.linear(b.mul(b.silu(b.linear(h, gate)), b.linear(h, up)), down))


def normalised(b: Emitter, x: SSAValue, number: int) -> SSAValue:
    scale, shift = (parameter(b, f"{number}.{name}", WIDTH) for name in "gb")
    h = b.layer_norm(x, scale, shift)
    return b.softmax(b.add(b.linear(h, parameter(b, f"{number}.w")), b.tanh(h)))


def random_layer(seed: int) -> Layer:
    """A layer of random operations on what it gets, a parameter of its own and one of all."""

    def layer(b: Emitter, x: SSAValue, number: int) -> SSAValue:
        rng = random.Random(seed)
        pool = [x, parameter(b, f"{number}.w"), parameter(b, "shared")]
        for _ in range(rng.randint(3, 9)):
            pool.append(random_step(b, rng, pool))
        fitting = [value for value in pool[3:] if value.type == x.type]
        last = fitting[-1] if fitting else b.mul(x, pool[1])
        return b.add(x, last) if rng.random() < 0.5 else last

    return layer


def facts_of(graph: GraphOp, rules: list[Rule]) -> Facts:
    return encode_graph(graph, literals_of(rules)).facts


def from_equal_layers(graph: GraphOp) -> SaturatedGraph | None:
    """The graph from equal layers, compared with the one of the whole program."""
    rules = rules_of(DEFAULT_CLASSES)
    found = saturate_layers(facts_of(graph, rules), rules, 60.0, widen=True)
    if found is not None:
        facts = facts_of(graph, rules)
        values = len(facts.handle_types)
        whole = saturate_facts(facts, rules, 60.0, widen=True)
        assert found.saturated and whole.saturated
        assert found.iterations == whole.iterations
        assert found.fired == whole.fired
        check_equal(found, whole, values)
    return found


def check_equal(found: SaturatedGraph, whole: SaturatedGraph, values: int) -> None:
    """Two graphs of one program, whose values have the first handles, have the same classes."""
    together = {(found.class_of[value], whole.class_of[value]) for value in range(values)}
    assert len({one for one, _ in together}) == len({other for _, other in together})
    assert len(together) == len({one for one, _ in together})
    anchors = {one: place for place, (one, _) in enumerate(sorted(together))}
    others = {other: anchors[one] for one, other in together}
    assert looks_of(found, anchors) == looks_of(whole, others)
    assert found.class_count == whole.class_count
    assert found.node_count == whole.node_count


def looks_of(graph: SaturatedGraph, anchors: dict[int, int]) -> Counter[int]:
    """What the classes look like, several steps towards operands, those that the program names as
    anchors: with their e-nodes, leaves and constants.
    """
    keys = graph.nodes.keys() | graph.leaves.keys()
    own = {
        key: hash((anchors.get(key), *graph.leaves.get(key, ()), graph.splats.get(key)))
        for key in keys
    }
    looks = own
    for _ in range(STEPS):
        looks = {
            key: hash(
                (
                    own[key],
                    frozenset(
                        (*node[:3], *[looks[item] for item in node.operands])
                        for node in graph.nodes.get(key, ())
                    ),
                )
            )
            for key in keys
        }
    return Counter(looks.values())


@pytest.mark.parametrize("layer", [perceptron, gated, normalised])
def test_layers_are_saturated_once(layer: Layer) -> None:
    found = from_equal_layers(repeated(layer))
    assert found is not None
    assert found.layer_copies >= LAYERS - 9


@pytest.mark.parametrize("kind", ["inference_graph", "training_graph"])
def test_so_are_those_of_a_decoder(kind: str) -> None:
    found = from_equal_layers(getattr(egraph_graphs, kind)(LAYERS))
    assert found is not None
    assert found.layer_copies >= LAYERS - 9


def test_random_layers_too() -> None:
    found = [from_equal_layers(repeated(random_layer(seed))) for seed in range(40)]
    assert sum(item is not None for item in found) >= 20


def test_layers_that_differ_are_no_repeated_layers() -> None:
    def one_differs(b: Emitter, x: SSAValue, number: int) -> SSAValue:
        return b.tanh(x) if number == LAYERS // 2 else perceptron(b, x, number)

    def constants_differ(b: Emitter, x: SSAValue, number: int) -> SSAValue:
        return b.mul(perceptron(b, x, number), 1.5 + number)

    rules = rules_of(DEFAULT_CLASSES)
    for layer in (one_differs, constants_differ):
        assert find_layers(facts_of(repeated(layer), rules)) is None
    assert find_layers(facts_of(repeated(perceptron, 6), rules)) is None


def test_nothing_is_left_out_that_is_read_from_elsewhere() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        values: list[SSAValue] = []
        for number in range(LAYERS):
            x = perceptron(b, x, number)
            values.append(x)
        return b.concat(values, axis=0)

    graph = build_graph(body, f32(WIDTH, WIDTH))
    assert find_layers(facts_of(graph, rules_of(DEFAULT_CLASSES))) is not None
    assert from_equal_layers(graph) is None


def test_branches_written_side_by_side_are_no_repeated_layers_and_soon_seen_to_be_none() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        values = [parameter(b, f"{number}.w") for number in range(LAYERS)]
        for _ in range(40):
            values = [b.exp(b.tanh(value)) for value in values]
        for value in values:
            x = b.mul(x, value)
        return x

    rules = rules_of(DEFAULT_CLASSES)
    assert find_layers(facts_of(build_graph(body, f32(WIDTH, WIDTH)), rules)) is None


def test_constants_that_layers_make_of_each_other_are_not_alike() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        table = b.cast(b.call("iota", [WIDTH]), "f32")
        for number in range(LAYERS):
            table = b.mul(b.cos(table), 3.0)
            x = b.add(b.mul(x, table), parameter(b, f"{number}.w"))
        return x

    assert from_equal_layers(build_graph(body, f32(WIDTH, WIDTH))) is None


def test_products_of_all_layers_that_become_one_are_no_repeated_layers() -> None:
    def body(b: Emitter, x: SSAValue, memory: SSAValue) -> SSAValue:
        for number in range(LAYERS):
            x = b.softmax(b.add(x, b.matmul(memory, parameter(b, f"{number}.w"))))
        return x

    assert from_equal_layers(build_graph(body, f32(WIDTH, WIDTH), f32(WIDTH, WIDTH))) is None


def test_rules_that_reach_further_than_to_a_neighbour_see_the_whole() -> None:
    long = "x"
    for _ in range(4):
        long = f"tanh({long})"
    rule = Rule("four-tanh", long, "x", RuleClass.APPROXIMATES, "reaches over four layers")
    rules = rules_of(DEFAULT_CLASSES)
    graph = repeated(lambda b, x, number: b.tanh(x), 2 * LAYERS)
    assert saturate_layers(facts_of(graph, rules), rules, 60.0, widen=True) is not None
    assert saturate_layers(facts_of(graph, rules), [*rules, rule], 60.0, widen=True) is None


@pytest.mark.parametrize("layer", [perceptron, gated, normalised, *map(random_layer, range(6))])
def test_the_kernels_are_those_chosen_for_the_whole_program(
    layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = repeated(layer)
    for number, op in enumerate(before.block.ops):
        place = FileLineColLoc(StringAttr("layers.mgn"), IntAttr(number + 1), IntAttr(1))
        op.location = place
    short, whole = before.clone(), before.clone()
    found = saturate_graph(short, CPU)
    forget_choices()
    monkeypatch.setattr(saturate, "saturate_layers", lambda *_: None)
    expected = saturate_graph(whole, CPU)
    assert found.layer_copies or layer.__name__ == "layer"
    assert expected.layer_copies == 0
    assert ("equal layers copied" in str(found)) is bool(found.layer_copies)
    assert (found.cost_after, found.classes) == (expected.cost_after, expected.classes)
    assert located(short) == located(whole)


def located(graph: GraphOp) -> str:
    stream = StringIO()
    Printer(stream, print_debuginfo=True).print_op(graph)
    return stream.getvalue()


def trained_by_plain_steps(layers: int) -> GraphOp:
    """One step of plain gradient descent of a transformer normed after each branch."""
    width = egraph_graphs.WIDTH
    block, b = egraph_graphs._start()
    x, _, _, mask = block.args
    tape = egraph_graphs.Tape(b)
    weights: list[SSAValue] = []

    def weight(*shape: int) -> SSAValue:
        weights.append(parameter(b, f"{len(weights)}", *shape))
        return weights[-1]

    def linear(x: SSAValue) -> SSAValue:
        return tape.linear(x, weight(width, width), weight(width))

    def active(x: SSAValue) -> SSAValue:
        cube = b.mul(b.mul(b.mul(x, x), x), 0.044715)
        inner = b.tanh(b.mul(b.add(x, cube), 0.797))
        result = b.mul(b.mul(x, 0.5), b.add(inner, 1.0))

        def step() -> None:
            slope = b.mul(b.add(b.mul(b.mul(x, x), 3 * 0.044715), 1.0), 0.797)
            bend = b.mul(b.sub(1.0, b.mul(inner, inner)), slope)
            whole = b.add(b.mul(b.add(inner, 1.0), 0.5), b.mul(b.mul(x, 0.5), bend))
            tape.add_gradient(x, b.mul(tape.gradients[result], whole))

        tape.steps.append(step)
        return result

    def normed(x: SSAValue) -> SSAValue:
        scale, shift = weight(width), weight(width)
        centred = b.sub(x, b.mean(x, axis=1, keepdims=True))
        squares = b.mean(b.mul(centred, centred), axis=1, keepdims=True)
        root = b.rsqrt(b.add(squares, 1e-5))
        normal = b.mul(centred, root)
        result = b.add(b.mul(normal, scale), shift)

        def step() -> None:
            gradient = tape.gradients[result]
            tape.add_gradient(shift, b.sum(gradient, axis=0))
            tape.add_gradient(scale, b.sum(b.mul(gradient, normal), axis=0))
            inner = b.mul(gradient, scale)
            mean = b.mean(inner, axis=1, keepdims=True)
            along = b.mean(b.mul(inner, normal), axis=1, keepdims=True)
            left = b.sub(b.sub(inner, mean), b.mul(normal, along))
            tape.add_gradient(x, b.mul(left, root))

        tape.steps.append(step)
        return result

    for _ in range(layers):
        q, k, v = (tape.heads(linear(x)) for _ in range(3))
        x = normed(tape.sum(x, linear(tape.joined(tape.attention(q, k, v, mask)))))
        x = normed(tape.sum(x, linear(active(linear(x)))))
    tape.add_gradient(x, b.mul(x, 1e-3))
    tape.backward()
    return egraph_graphs._finish(block, [b.sub(w, b.mul(tape.gradients[w], 1e-3)) for w in weights])


def test_what_forward_and_backward_passes_have_alike_are_no_repeated_layers() -> None:
    """Each mean of a layer is one of the forward pass and one of the backward pass."""
    graph = trained_by_plain_steps(6)
    assert find_layers(facts_of(graph, rules_of(DEFAULT_CLASSES))) is None
