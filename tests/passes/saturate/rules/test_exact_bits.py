"""Folded constants, canonical forms and exact rules keep every bit: signs of zeros, infinities,
nan, subnormals, and integers that wrap around.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

import mgn
from mgn.dialects.mgn.build import CallError, Emitter
from mgn.dialects.mgn.fold import constant_results
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import OPERATIONS, Kind, TensorOp
from mgn.dialects.mgn.structure import GraphOp, ReturnOp, graphs_of
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, element_of, tensor
from mgn.passes.saturate import RuleClass, SaturateOptions
from mgn.passes.saturate.egraph.engine import saturate_facts
from mgn.passes.saturate.encoding.encode import encode_graph
from mgn.passes.saturate.rules.table import rules_of
from mgn.passes.saturate.saturate import literals_of
from mgn.passes.simplify import simplify_graph
from mgn.testing.draws import special_values
from mgn.testing.values import Values, same_bits

EXACT = SaturateOptions(classes=frozenset({RuleClass.EXACT}))
ELEMENTS = tuple(name for name, element in ELEMENT_TYPES.items() if element.dtype is not None)
ELEMENTWISE = tuple(
    name
    for name, spec in OPERATIONS.items()
    if spec.kind is Kind.ELEMENTWISE and spec.evaluate is not None and not spec.attributes
)
Body = Callable[[Emitter, SSAValue], SSAValue]


def graph_of(element: str, size: int, body: Body) -> GraphOp:
    """A graph of one input of so many elements."""
    block = Block(arg_types=[tensor(element, (size,))])
    block.add_op(ReturnOp([body(Emitter(block.add_op), *block.args)]))
    graph = GraphOp("g", ["x"], ["y"], Region(block))
    ModuleOp([graph])
    graph.verify()
    return graph


def computed(graph: GraphOp, x: np.ndarray) -> np.ndarray:
    """The result of a graph, in the declared types."""
    return Interpreter().run(graph, {"x": x})["y"]


def folded_operations(name: str, element: str) -> Iterator[tuple[TensorOp, list[np.ndarray]]]:
    """An operation on all special values, with each of them as a scalar beside it."""
    values = special_values(ELEMENT_TYPES[element])
    sides = len(OPERATIONS[name].operands)
    for number in range(1 if sides == 1 else values.size):
        block = Block()
        b = Emitter(block.add_op)
        arrays = [values, values[number], values[::-1]][:sides]
        if name == "where":
            arrays[0] = np.arange(values.size) % 2 == 0
        constants = [b.constant_array(np.ascontiguousarray(array)) for array in arrays]
        result = getattr(b, name)(*constants)
        yield result.owner, arrays


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_operation_on_special_constants_folds_to_the_bits_that_it_has_on_inputs(
    name: str,
) -> None:
    tried = 0
    for element in ELEMENTS:
        try:
            for op, arrays in folded_operations(name, element):
                folded = constant_results(op)
                full = [
                    np.ascontiguousarray(np.broadcast_to(array, arrays[0].shape))
                    for array in arrays
                ]
                if folded is None:
                    continue
                (result,) = folded
                block = Block(
                    arg_types=[tensor(element_name(array), array.shape) for array in full]
                )
                again = op.spec.op_class.create(
                    operands=list(block.args), result_types=[op.results[0].type]
                )
                block.add_op(again)
                (wanted,) = Interpreter().run_op(again, full)
                assert same_bits(result, wanted), (element, arrays[1:])
                tried += 1
        except (ShapeError, CallError):
            continue
    assert tried or name == "stop_gradient"


def element_name(array: np.ndarray) -> str:
    """The element type of an array."""
    return next(name for name, one in ELEMENT_TYPES.items() if one.dtype == array.dtype)


@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16"])
def test_a_power_of_one_half_is_no_square_root_at_minus_zero_and_minus_infinity(
    element: str,
) -> None:
    x = np.array([-0.0, -np.inf, 0.0, 4.0]).astype(ELEMENT_TYPES[element].dtype)
    for exponent in (by_a_scalar, by_one_each):
        y = computed(graph_of(element, 4, exponent), x).astype(np.float64)
        assert y.tolist() == [0.0, np.inf, 0.0, 2.0]
        assert not np.signbit(y).any()


def by_a_scalar(b: Emitter, x: SSAValue) -> SSAValue:
    """x to a scalar power."""
    return b.pow(x, 0.5)


def by_one_each(b: Emitter, x: SSAValue) -> SSAValue:
    """x to a power that each element has for itself."""
    return b.pow(x, b.full((4,), 0.5, element_of(x.type)))


SIMPLIFIED: dict[str, tuple[tuple[str, ...], Body]] = {
    "sum of one": (("f32", "f16"), lambda b, x: b.sum(b.reshape(x, (-1, 1)), axis=1)),
    "product of one": (("f32", "i8"), lambda b, x: b.prod(b.reshape(x, (-1, 1)), axis=1)),
    "largest of one": (("f32", "bf16"), lambda b, x: b.max_reduce(b.reshape(x, (-1, 1)), axis=1)),
    "divided by one": (("f32", "i8", "u8", "i64"), lambda b, x: b.div(x, 1)),
    "negated twice": (("f32", "i8", "u8", "i64"), lambda b, x: b.neg(b.neg(x))),
    "integer plus zero": (("i8", "u32", "i64"), lambda b, x: b.add(x, 0)),
    "widened and back": (("i8", "u8", "i16"), lambda b, x: b.cast(b.cast(x, "i64"), "i8")),
    "halves widened": (("f16", "bf16"), lambda b, x: b.cast(b.cast(x, "f32"), "f64")),
    "padded by -0": (("f32",), lambda b, x: b.pad(b.pad(x, [(1, 0)], -0.0), [(0, 1)], 0.0)),
}


@pytest.mark.parametrize("case", SIMPLIFIED)
def test_a_canonical_form_keeps_the_bits_of_special_values(case: str) -> None:
    elements, body = SIMPLIFIED[case]
    for element in elements:
        x = special_values(ELEMENT_TYPES[element])
        graph = graph_of(element, x.size, body)
        before = computed(graph, x)
        simplify_graph(graph)
        assert same_bits(computed(graph, x), before), element


PROGRAMS = {
    "a masked zero times a negative": "1.0 / (where(m, x, 0.0) * -4.0)",
    "a masked zero over a negative": "1.0 / (where(m, x, 0.0) / -4.0)",
    "a masked negative times zero": "1.0 / (where(m, x, -3.0) * 0.0)",
    "a hidden zero times a negative": "1.0 / (where(m, -0.0, x) * -1.0)",
    "infinity times a negative": "where(m, x, inf) * -2.0",
    "the least number, halved": "where(m, x, 1.1754943508222875e-38) * 0.5",
    "the largest number, doubled": "where(m, x, 3.4028234663852886e38) * 2.0",
    "a quotient by a power of two": "1.0 / (x / -0.5)",
    "a power of two whose inverse is subnormal": "x / 1.7014118346046923e38",
    "an inverse of an inverse": "1.0 / (1.0 / x)",
    "negative times a constant": "(-x) * -0.0",
    "a product with minus one": "x * -1.0",
    "exp of a negative scale": "exp(x * -0.0)",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_exact_rules_keep_the_bits_of_special_values(program: str) -> None:
    x = np.repeat(special_values(ELEMENT_TYPES["f32"]), 2)
    m = np.arange(x.size) % 2 == 0
    text = f"graph g(x: f32[{x.size}], m: bool[{x.size}]) {{ return y = {program} }}"
    module = mgn.parse(text)
    (before,) = graphs_of(module.lower())
    (after,) = graphs_of(mgn.optimize(module, saturation=EXACT).module)
    one, two = (Interpreter().run(graph, {"x": x, "m": m})["y"] for graph in (before, after))
    assert same_bits(one, two)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_all_that_exact_rules_make_of_a_program_has_its_bits(program: str) -> None:
    """Whichever of it is chosen."""
    x = np.repeat(special_values(ELEMENT_TYPES["f32"]), 2)
    m = np.arange(x.size) % 2 == 0
    text = f"graph g(x: f32[{x.size}], m: bool[{x.size}]) {{ return y = {program} }}"
    (graph,) = graphs_of(mgn.parse(text).lower())
    rules = rules_of(EXACT.classes)
    encoded = encode_graph(graph, literals_of(rules))
    result = saturate_facts(encoded.facts, rules)
    values = Values(graph, result, encoded.outputs[0])
    assert values.differ_in_bits_on([x, m]) is None


INTEGER_PROGRAMS = (
    "where(m, x, 9007199254740993) * 3",
    "where(m, x, -9223372036854775807) * -1",
    "where(m, x, 4611686018427387904) * 2",
    "(-x) * -1",
    "abs(-x)",
    "(x * -1) / -1",
    "x / -1",
    "max(x, x) * 1",
    "where(m, x, 9223372036854775807) / 1",
)


@pytest.mark.parametrize("program", INTEGER_PROGRAMS)
@pytest.mark.parametrize("rules", ["exact", "default"])
def test_rules_on_integers_wrap_around_at_both_ends(program: str, rules: str) -> None:
    x = np.repeat(special_values(ELEMENT_TYPES["i64"]), 2)
    m = np.arange(x.size) % 2 == 0
    text = f"graph g(x: i64[{x.size}], m: bool[{x.size}]) {{ return y = {program} }}"
    module = mgn.parse(text)
    (before,) = graphs_of(module.lower())
    saturation = EXACT if rules == "exact" else None
    (after,) = graphs_of(mgn.optimize(module, saturation=saturation).module)
    one, two = (Interpreter().run(graph, {"x": x, "m": m})["y"] for graph in (before, after))
    assert same_bits(one, two)
