"""The dialect as text: what is printed is read back, and what is wrong is refused with reasons."""

import math
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region
from xdsl.utils.exceptions import ParseError, VerifyException

from mgn.dialects.dense import array_of, dense_of
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.initialiser import InitialiserAttr
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import (
    ConstantOp,
    GraphOp,
    ParamOp,
    ReturnOp,
    graphs_of,
)
from mgn.dialects.types import ELEMENT_TYPES, element_of_dtype, spelling, tensor
from mgn.modules.mlir_text import parse_mlir, print_mlir
from tests.dialects.case import Case, Source
from tests.dialects.operation_cases import CASES
from tests.support.programs import call, context, parse


def graph_around(case: Case) -> ModuleOp:
    """A case as a module of one graph without inputs."""
    block = Block()
    results = call(block, case.name, *case.arguments(Source(np.float32)), **dict(case.keywords))
    block.add_op(ReturnOp(results))
    names = [f"y{i}" for i in range(len(results))]
    return ModuleOp([GraphOp("g", [], names, Region(block))])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operation_is_printed_as_it_is_parsed(case: Case) -> None:
    module = graph_around(case)
    module.verify()
    assert str(parse(str(module))) == str(module)


def test_attributes_at_their_default_are_not_printed_and_others_are() -> None:
    block = Block(arg_types=[tensor("f32", (2, 3))])
    b = Emitter(block.add_op)
    first = b.sum(block.args[0], axis=1)
    second = b.clamp(block.args[0], max=math.inf)
    assert "axis = [1] : (tensor<2x3xf32>) -> tensor<2xf32>" in str(first.owner)
    assert "max = inf : tensor<2x3xf32>" in str(second.owner)


STRUCTURE = """builtin.module {
  mgn.param @"layers.0.w" : tensor<2x3xf32> = normal(0.0, 0.02)
  mgn.param @"b" : tensor<3xbf16>
  mgn.graph @g("x" = %x: tensor<2x3xf32>) -> ("y" : tensor<2x3xf32>, "c" : tensor<2xi1>) {
    %w = mgn.read @"layers.0.w" : tensor<2x3xf32>
    %y = mgn.add(%x, %w) : tensor<2x3xf32>
    %c = mgn.constant dense<[true, false]> : tensor<2xi1>
    mgn.return %y, %c : tensor<2x3xf32>, tensor<2xi1>
  }
}"""


def test_structure_is_printed_as_it_is_parsed() -> None:
    printed = str(parse(STRUCTURE))
    assert str(parse(printed)) == printed
    assert "mgn.param @layers.0.w : tensor<2x3xf32> = normal(0.0, 0.02)" in printed
    assert "dense<[true, false]> : tensor<2xi1>" in printed


@pytest.mark.parametrize("name", [name for name, row in ELEMENT_TYPES.items() if row.dtype])
def test_a_constant_holds_every_element_type_bit_for_bit(name: str) -> None:
    row = ELEMENT_TYPES[name]
    array = np.array([[0, 1], [1, 0]]).astype(row.dtype)
    assert element_of_dtype(array.dtype) is row
    held = array_of(dense_of(array))
    assert held.dtype == array.dtype
    np.testing.assert_array_equal(held, array)
    assert spelling(ConstantOp.from_array(array).results[0].type) == f"{name}[2, 2]"


FLOATS = [ELEMENT_TYPES[name] for name in ("f64", "f32", "f16", "bf16")]


@pytest.mark.parametrize("row", FLOATS, ids=lambda row: row.name)
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([np.nan, -0.0, -np.inf], 'dense<"0x'),
        (-np.inf, "-inf : "),
        ([np.inf, np.inf], "inf : "),
        (np.nan, "nan : "),
        ([0.1, -1e-4, 3.25e4], "dense<["),
        (-0.0, "dense<-0.0"),
        ([0.0, -0.0], 'dense<"0x'),
        (np.zeros((0, 2)), "dense<> : "),
        (np.ones((10, 2)), "dense<1.0"),
    ],
    ids=str,
)
def test_a_float_constant_is_read_back_bit_for_bit(row: Any, values: Any, text: str) -> None:
    op = ConstantOp.from_array(np.array(values).astype(row.dtype))
    module = ModuleOp([GraphOp("g", [], ["y"], Region(Block([op, ReturnOp(op.results)])))])
    assert f"mgn.constant {text}" in str(module)
    (graph,) = graphs_of(parse(str(module)))
    read = graph.block.first_op
    assert isinstance(read, ConstantOp)
    assert read.array.tobytes() == op.array.tobytes()


@pytest.mark.parametrize("generic", [False, True], ids=["own syntax", "generic form"])
@pytest.mark.parametrize("element", ["f64", "f32", "f16", "bf16"])
def test_numbers_that_xdsl_writes_as_their_bits_are_read_back(element: str, generic: bool) -> None:
    row = ELEMENT_TYPES[element]
    for values in (np.inf, -np.inf, np.nan, 123456792.0, [16777216.0, 987654336.0], [0.0, -0.0]):
        with np.errstate(over="ignore"):
            op = ConstantOp.from_array(np.array(values).astype(row.dtype))
        module = ModuleOp([GraphOp("g", [], ["y"], Region(Block([op, ReturnOp(op.results)])))])
        text = print_mlir(module, generic)
        (graph,) = graphs_of(parse(text))
        read = graph.block.first_op
        assert isinstance(read, ConstantOp)
        assert read.array.tobytes() == op.array.tobytes(), text


def test_bits_of_floats_in_elements_are_read_as_mlir_reads_them() -> None:
    constant = '%0 = "mgn.constant"() <{value = dense<[BITS, 1.5]> : tensor<2xf32>}> : () -> '
    text = around(constant + "tensor<2xf32>")
    (graph,) = graphs_of(parse_mlir(text.replace("BITS", "0xff800000"), context()))
    read = graph.block.first_op
    assert isinstance(read, ConstantOp)
    assert read.array.tolist() == [-math.inf, 1.5]
    for bits in ("0x1ff800000", "-0x3f800000"):
        with pytest.raises(ParseError, match="a hexadecimal f32 is its bits: 0x and 8 digits"):
            parse_mlir(text.replace("BITS", bits), context())


def test_a_hexadecimal_float_which_would_be_misread_is_an_error() -> None:
    with pytest.raises(ParseError, match="must be written as bytes"):
        parse(around("%0 = mgn.constant dense<0xff800000> : tensor<f32>"))


@pytest.mark.parametrize("value", [1e-5, 1e22, -2.5e-300, 0.1, math.inf, -math.inf, 5e-324])
def test_a_number_is_read_back_exactly(value: float) -> None:
    block = Block(arg_types=[tensor("f64", (2,))])
    result = Emitter(block.add_op).clamp(block.args[0], min=value)
    block.add_op(ReturnOp([result]))
    module = ModuleOp(
        [
            ParamOp("w", tensor("f32", (2,)), InitialiserAttr.of("constant", value)),
            GraphOp("g", ["x"], ["y"], Region(block)),
        ]
    )
    read = parse(str(module))
    parameter, graph = read.body.block.ops
    assert isinstance(parameter, ParamOp) and isinstance(graph, GraphOp)
    assert parameter.initialiser is not None and parameter.initialiser.values == (value,)
    clamp = graph.block.first_op
    assert isinstance(clamp, TensorOp) and clamp.values["min"] == value


def around(*lines: str, result: str = "%x : tensor<2x3xf32>") -> str:
    """A graph on x: f32[2, 3] and i: i32[2] with these lines."""
    body = "\n".join(lines)
    return f"""
      mgn.graph @g("x" = %x : tensor<2x3xf32>, "i" = %i : tensor<2xi32>)
          -> ("y" : tensor<2x3xf32>) {{
        {body}
        mgn.return {result}
      }}
    """


WRONG: list[tuple[str, str]] = [
    (
        "%0 = mgn.exp(%x) : (tensor<2x3xf32>) -> tensor<3x2xf32>",
        "mgn.exp: result type must be tensor<2x3xf32>",
    ),
    (
        "%0 = mgn.exp(%i) : tensor<2xi32>",
        "mgn.exp: operand 'x' must be float, not i32",
    ),
    (
        "%0 = mgn.add(%x, %i) : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<2x3xf32>",
        "mgn.add: operands have different element types f32 and i32; "
        "use cast(x, f32), where x is that in i32",
    ),
    (
        "%0 = mgn.sum(%x) axis = [-1] : (tensor<2x3xf32>) -> tensor<2xf32>",
        "mgn.sum: axis must be in canonical form, (1,)",
    ),
    (
        "%0 = mgn.sum(%x) : (tensor<2x3xf32>) -> tensor<f32>",
        "mgn.sum: axis must be in canonical form, (0, 1)",
    ),
    (
        '%0 = "mgn.reshape"(%x) : (tensor<2x3xf32>) -> tensor<6xf32>',
        "mgn.reshape: attribute 'shape' is missing",
    ),
    (
        '%0 = "mgn.softmax"(%x) <{axis = "one"}> : (tensor<2x3xf32>) -> tensor<2x3xf32>',
        "mgn.softmax: attribute 'axis' must be of kind int",
    ),
    (
        '%0 = "mgn.layer_norm"() <{eps = 1.0 : f64}> : () -> tensor<2x3xf32>',
        "mgn.layer_norm: 0 operands do not fit the signature",
    ),
    (
        '%0 = "mgn.concat"() <{axis = 0}> : () -> tensor<2x3xf32>',
        "mgn.concat: a list of operands must not be empty",
    ),
    (
        "%0 = builtin.unrealized_conversion_cast %x : tensor<2x3xf32> to tensor<?xf32>\n"
        "%1 = mgn.exp(%0) : tensor<?xf32>",
        "mgn.exp: tensor<?xf32> has no static shape",
    ),
    (
        "%0 = builtin.unrealized_conversion_cast %x : tensor<2x3xf32> to tensor<2xindex>\n"
        "%1 = mgn.abs(%0) : tensor<2xindex>",
        "mgn.abs: index is not an element type of mgn",
    ),
    (
        '%0 = mgn.read @"w" : tensor<2xf32>',
        'mgn.read: there is no parameter @"w"',
    ),
]


@pytest.mark.parametrize(("lines", "message"), WRONG, ids=[row[1] for row in WRONG])
def test_a_wrong_operation_is_refused_with_its_reason(lines: str, message: str) -> None:
    with pytest.raises(VerifyException) as caught:
        parse(around(lines))
    assert message in str(caught.value)


def test_a_type_that_mgn_does_not_have_is_a_parse_error() -> None:
    with pytest.raises(ParseError, match="i7 is not an element type of mgn"):
        parse(around("%0 = mgn.cast(%x) T = i7 : (tensor<2x3xf32>) -> tensor<2x3xi7>"))


def test_an_unknown_attribute_is_a_parse_error() -> None:
    with pytest.raises(ParseError, match=r"mgn\.exp has no attribute 'axis'"):
        parse(around("%0 = mgn.exp(%x) axis = 1 : tensor<2x3xf32>"))


def graph(inputs: list[str], outputs: list[str], returned: int = 1, **kwargs: Any) -> GraphOp:
    block = Block(arg_types=[tensor(kwargs.get("element", "f32"), (32,))])
    block.add_op(ReturnOp([block.args[0]] * returned))
    return GraphOp("g", inputs, outputs, Region(block))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (graph([], ["y"]), "number of input names and arguments differ"),
        (graph(["x"], ["y", "y"], 2), "a name is used twice"),
        (graph(["x"], ["y"], 2), "2 values for 1 results"),
        (graph(["x"], ["y"], element="q8_0"), "an input cannot have a block format"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_graph_is_refused(wrong: GraphOp, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        ModuleOp([wrong]).verify()


@pytest.mark.parametrize(
    ("type", "message"),
    [
        ("tensor<4000000000x4000000000xf32>", "is too large"),
        ("tensor<3xi7>", "i7 is not an element type of mgn"),
        ("tensor<?xf32>", "has no static shape"),
    ],
)
def test_a_tensor_that_no_device_holds_is_refused(type: str, message: str) -> None:
    text = f"""
    mgn.graph @g("x" = %x: {type}) -> ("x" : {type}) {{
      mgn.return %x : {type}
    }}"""
    with pytest.raises(VerifyException, match=message):
        parse(text)
    with pytest.raises(VerifyException, match=message):
        parse(f'mgn.param @"w" : {type}')


@pytest.mark.parametrize(
    ("initialiser", "message"),
    [
        ("orthogonal()", "unknown initialiser 'orthogonal'"),
        ("normal(0.0)", "takes 2 arguments"),
        ("normal(0.0, -1.0)", "takes a std of at least 0"),
    ],
)
def test_a_wrong_initialiser_is_refused(initialiser: str, message: str) -> None:
    with pytest.raises((VerifyException, ParseError), match=message):
        parse(f'mgn.param @"w" : tensor<2xf32> = {initialiser}')


@pytest.mark.parametrize("what", ["param", "state"])
def test_the_name_of_notes_in_weight_files_is_refused(what: str) -> None:
    with pytest.raises(VerifyException, match="weight files keep the name '__metadata__'"):
        parse(f'mgn.{what} @"__metadata__" : tensor<2xf32>')


def test_two_parameters_of_one_name_are_refused() -> None:
    parameter = 'mgn.param @"g" : tensor<2xf32>\n'
    text = (
        'mgn.graph @g("x" = %x : tensor<2xf32>) -> ("y" : tensor<2xf32>) {\n'
        "  mgn.return %x : tensor<2xf32>\n}"
    )
    parse(parameter + text)
    with pytest.raises(VerifyException, match='two parameters are named "g"'):
        parse(parameter * 2 + text)


def test_a_module_lists_its_graphs_and_an_initialiser_its_values() -> None:
    module = parse(STRUCTURE)
    assert [item.sym_name.data for item in graphs_of(module)] == ["g"]
    assert InitialiserAttr.of("normal", 0.0, 0.02).values == (0.0, 0.02)
    assert isinstance(module.body.block.first_op, ParamOp)


def test_the_sign_of_zero_tells_operations_apart() -> None:
    made: list[Any] = []
    emitter = Emitter(made.append)
    x = emitter.constant_array(np.ones(3, np.float32))
    for value in (0.0, -0.0, 0.0):
        emitter.pad(x, [(1, 1)], value=value)
    values = [op.values["value"] for op in made if isinstance(op, TensorOp)]
    assert [str(value) for value in values] == ["0.0", "-0.0", "0.0"]
