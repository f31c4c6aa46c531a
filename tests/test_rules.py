"""Every row of the rule table: both sides are equal on random instances; wrong rows are caught."""

import ast
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from saturate_programs import build_graph, saturated
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.structure import array_of
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import ELEMENT_TYPES, element_of, tensor
from mgn.passes.saturate.encode import encode_graph
from mgn.passes.saturate.engine import saturate_facts
from mgn.passes.saturate.patterns import Call, Number, Pattern, PatternError, Variable
from mgn.passes.saturate.rules import RULES, Rule, RuleClass, register_rule
from mgn.passes.saturate.saturate import literals_of

SHAPES = ((3, 4), (4, 3), (2, 3, 4), (4,), (), (3, 3), (2, 2, 2))
ELEMENTS = ("f32", "f16", "i32", "u8", "bool")
ATTRIBUTES: dict[str, tuple[object, ...]] = {
    "perm": ((1, 0), (0, 1), (0, 2, 1), (2, 0, 1), (1, 2, 0), (0,), ()),
    "shape": ((12,), (3, 4), (4, 3), (2, 2, 3, 4), (2, 3, 4), (4,), ()),
    "axis": ((0,), (1,), (0, 1)),
    "T": tuple(ELEMENT_TYPES[name] for name in ("f32", "f64", "f16", "i32", "i64")),
    "transpose_a": (False, True),
    "transpose_b": (False, True),
    "padding": (((0, 0), (0, 0)), ((1, 0), (0, 0)), ((0, 0),)),
    "value": (0.0, 1.5),
    "starts": ((0, 0), (1, 0), (0,)),
    "stops": ((3, 4), (2, 4), (4,)),
    "steps": ((1, 1), (1,)),
}
CONSTANTS = (2.0, -1.5, 3.0)


class Unfit(Exception):
    """These types or attributes do not make an instance of the left side."""


def instances(rule: Rule) -> Iterator[tuple[list[TensorType], dict[str, object], int]]:
    """Types of the variables and values of the attribute variables to try."""
    names = attribute_names(rule.left_pattern)
    choices = [ATTRIBUTES[keyword] for keyword in names.values()]
    for element in ELEMENTS:
        for shapes in itertools.product(SHAPES, repeat=min(len(rule.variables), 2)):
            shapes = (*shapes, *shapes[:1] * (len(rule.variables) - len(shapes)))
            for index, values in enumerate(itertools.product(*choices)):
                types = [tensor(element, shape) for shape in shapes]
                yield types, dict(zip(names, values, strict=True)), index


def attribute_names(pattern: Pattern) -> dict[str, str]:
    """The attribute variables of a pattern, with the keyword each stands for."""
    found: dict[str, str] = {}
    if isinstance(pattern, Call):
        for keyword, node in pattern.attributes.items():
            if isinstance(node, ast.Name):
                found.setdefault(node.id, keyword)
        for operand in pattern.operands:
            found |= attribute_names(operand)
    return found


def emit_left(
    b: Emitter, pattern: Pattern, values: dict[str, SSAValue], attributes: dict[str, object]
) -> SSAValue:
    """The left side as operations."""
    assert isinstance(pattern, Call)
    operands: list[object] = []
    for operand in pattern.operands:
        if isinstance(operand, Variable):
            operands.append(values[operand.name])
        elif isinstance(operand, Number):
            operands.append(operand.value)
        else:
            operands.append(emit_left(b, operand, values, attributes))
    keywords = {
        name: attributes[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)
        for name, node in pattern.attributes.items()
    }
    result = b.call(pattern.name, *operands, **keywords)
    assert isinstance(result, SSAValue)
    return result


def rewritten(rule: Rule, types: list[TensorType], attributes: dict[str, object]) -> bool | None:
    """Whether both sides agree on this instance; None where the rule does not act on it."""
    constants = iter(itertools.cycle(CONSTANTS))

    def body(b: Emitter, *inputs: SSAValue) -> SSAValue:
        values = dict(zip(rule.variables, inputs, strict=True))
        for name in rule.constants:
            element = element_of(values[name].type)
            values[name] = b.constant(next(constants), element)
        return emit_left(b, rule.left_pattern, values, attributes)

    try:
        graph = build_graph(body, *types)
        graph.verify()
    except (ShapeError, ValueError, KeyError) as error:
        raise Unfit from error
    encoded = encode_graph(graph, literals_of([rule]))
    result = saturate_facts(encoded.facts, [rule])
    if not result.fired[rule.name]:
        return None
    return all(same(graph, encoded.facts.handle_types, result, seed) for seed in range(2))


def same(graph, handle_types, result, seed: int) -> bool:
    """Evaluates every e-node of the root's class on the same inputs, in f64."""
    rng = np.random.default_rng(seed)
    arrays: dict[int, np.ndarray] = {}
    inputs = [random_array(rng, argument.type) for argument in graph.block.args]
    for key, leaves in result.leaves.items():
        leaf = result.facts.leaves.things[leaves[0]]
        if leaf.kind == "input":
            arrays[key] = inputs[leaf.key]
        else:
            arrays[key] = array_of(leaf.key)
    outcomes: dict[int, list[np.ndarray]] = {key: [value] for key, value in arrays.items()}
    for _ in range(8):
        for key, nodes in result.nodes.items():
            for node in nodes:
                if all(item in arrays for item in node.operands):
                    value = evaluate_node(result, node, arrays, handle_types[key])
                    arrays.setdefault(key, value)
                    outcomes.setdefault(key, []).append(value)
    return all(
        np.allclose(value, values[0], rtol=2e-3, atol=2e-3, equal_nan=True)
        for values in outcomes.values()
        for value in values
    )


def random_array(rng: np.random.Generator, type: TensorType) -> np.ndarray:
    element, shape = element_of(type), type.get_shape()
    if element.name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if element.family == "unsigned":
        return rng.integers(1, 9, shape).astype(element.dtype)
    if element.is_integer:
        return rng.integers(-9, 9, shape).astype(element.dtype)
    return rng.uniform(0.2, 1.5, shape) * rng.choice([-1.0, 1.0], shape)


def evaluate_node(result, node, arrays, type: TensorType) -> np.ndarray:
    spec = OPERATIONS[node.name]
    operand_types = [result.facts.handle_types[item] for item in node.operands]
    block = Block(arg_types=operand_types)
    op = spec.op_class.create(
        operands=list(block.args),
        result_types=[type],
        properties=dict(result.facts.properties.things[node.attributes]),
    )
    block.add_op(op)
    op.verify()
    interpreter = Interpreter(wide=True)
    with np.errstate(all="ignore"):
        environment = dict(zip(block.args, (arrays[item] for item in node.operands), strict=True))
        interpreter.run_block(block, environment)
    return environment[op.results[0]]


def trial(rule: Rule, wanted: int = 6, most: int = 400) -> tuple[int, int]:
    """How many instances the rule acted on, and on how many of them both sides agreed."""
    acted = agreed = tried = 0
    for types, attributes, _ in instances(rule):
        try:
            outcome = rewritten(rule, types, attributes)
        except Unfit:
            continue
        tried += 1
        if outcome is not None:
            acted += 1
            agreed += outcome
        if acted >= wanted or tried >= most:
            break
    return acted, agreed


@pytest.mark.parametrize("name", list(RULES))
def test_both_sides_of_every_rule_are_equal_on_random_instances(name: str) -> None:
    acted, agreed = trial(RULES[name])
    assert acted > 0, "the rule acted on no instance"
    assert agreed == acted


@pytest.mark.parametrize("name", list(RULES))
def test_every_rule_names_operations_and_predicates_that_exist(name: str) -> None:
    RULES[name].check()
    assert RULES[name].reason


WRONG = (
    Rule("w1", "sub(x, y)", "sub(y, x)", RuleClass.EXACT, "not commutative"),
    Rule("w2", "neg(neg(neg(x)))", "x", RuleClass.EXACT, "a sign too many"),
    Rule("w3", "mul(mul(x, c), d)", "mul(x, c + d)", RuleClass.EXACT, "a sum for a product"),
    Rule(
        "w4",
        "transpose(transpose(x, perm=P), perm=Q)",
        "transpose(x, perm=compose(Q, P))",
        RuleClass.EXACT,
        "composed the wrong way round",
    ),
    Rule(
        "w5",
        "matmul(a, transpose(b, perm=P), transpose_a=M, transpose_b=N)",
        "matmul(a, b, transpose_a=not M, transpose_b=N)",
        RuleClass.EXACT,
        "the wrong operand",
    ),
    Rule("w6", "abs(x)", "x", RuleClass.EXACT, "only for positive x"),
    Rule("w7", "mul(x, sigmoid(y))", "silu(x)", RuleClass.EXACT, "another y"),
)


@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.reason)
def test_a_wrong_rule_is_caught_by_the_same_evaluation(rule: Rule) -> None:
    acted, agreed = trial(rule, wanted=60, most=2500)
    assert agreed < acted


def test_a_rule_whose_sides_differ_in_type_does_not_act() -> None:
    drops_broadcast = Rule("w", "sub(x, y)", "x", RuleClass.EXACT, "ignores y")

    def body(b: Emitter, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.sub(x, y)

    graph = build_graph(body, tensor("f32", (4,)), tensor("f32", (3, 4)))
    encoded = encode_graph(graph)
    assert saturate_facts(encoded.facts, [drops_broadcast]).fired["w"] == 0


def test_a_neutral_element_that_broadcasts_is_kept() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        return b.mul(x, b.constant_array(np.ones((3, 4), np.float32)))

    after, _ = saturated(body, tensor("f32", (4,)))
    assert after.results_returned[0].type == tensor("f32", (3, 4))


def test_registering_a_rule_makes_it_act() -> None:
    rule = Rule("double", "add(x, x)", "mul(x, 2)", RuleClass.EXACT, "x + x = 2 x")
    register_rule(rule)
    try:
        _, report = saturated(lambda b, x: b.add(x, x), tensor("f32", (4,)))
        assert report.fired["double"] == 1
        with pytest.raises(PatternError, match="already"):
            register_rule(rule)
    finally:
        del RULES["double"]


@pytest.mark.parametrize(
    ("left", "right", "when", "message"),
    [
        ("nothing(x)", "x", "", "unknown operation 'nothing'"),
        ("neg(x)", "y", "", "'y' is not bound"),
        ("neg(x)", "x", "unheard(x)", "unknown predicate 'unheard'"),
        ("neg(x", "x", "", "not a pattern"),
        ("x", "x", "", "must be an operation"),
        ("neg(x)", "x", "1 < 2", "predicates joined by 'and'"),
    ],
)
def test_a_malformed_rule_is_refused(left: str, right: str, when: str, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        register_rule(Rule("bad", left, right, RuleClass.EXACT, "never", when))


def test_only_the_allowed_classes_act() -> None:
    def body(b: Emitter, x: SSAValue) -> SSAValue:
        return b.mul(b.add(x, 0.0), 1.0)

    exact = frozenset({RuleClass.EXACT})
    _, report = saturated(body, tensor("f32", (4,)), classes=exact)
    assert report.fired["mul-one"] > 0
    assert report.fired["add-zero"] == 0
