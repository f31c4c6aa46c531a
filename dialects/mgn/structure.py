"""The operations that hold a program together: graphs, parameters, their reads, constants.

mgn.param @"layers.0.w" : tensor<128x64xf32> = normal(0.0, 0.02)
mgn.graph @mlp("x" = %x : tensor<32x64xf32>) -> ("y" : tensor<32x128xf32>) {
  %w = mgn.read @"layers.0.w" : tensor<128x64xf32>
  %y = mgn.linear(%x, %w) : (tensor<32x64xf32>, tensor<128x64xf32>) -> tensor<32x128xf32>
  mgn.return %y : tensor<32x128xf32>
}
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from xdsl.dialect_interfaces.constant_materialization import ConstantMaterializationInterface
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    StringAttr,
    SymbolNameConstraint,
    TensorType,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure, SymbolOpInterface
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.block_formats import part_of_name
from mgn.dialects.dense import array_of as array_of
from mgn.dialects.dense import dense_of as dense_of
from mgn.dialects.dense import parse_dense, print_dense
from mgn.dialects.isolation import Isolated
from mgn.dialects.mgn.declared import DeclaredOp, ReadsDeclaredOp
from mgn.dialects.mgn.states import StateOp, state_accesses
from mgn.dialects.shapes import ShapeError
from mgn.dialects.types import Family, check_size, element_of, tensor, value_type

Declared = TypeVar("Declared", bound=DeclaredOp)

PRECISION = "mgn.precision"
"""The attribute of a module whose products have rounded operands: what they are rounded to."""

STORED = "mgn.stored"
"""The attribute of a module whose activations lie in half precision: in which one."""


@irdl_op_definition
class ParamOp(DeclaredOp):
    """A trainable tensor, known by its external name: `mgn.param @"w" : tensor<4xf32> = ones()`."""

    name = "mgn.param"


@irdl_op_definition
class ReadOp(ReadsDeclaredOp):
    """The value of a parameter: `%w = mgn.read @"w" : tensor<4xf32>`; f32 for one that has a block
    format. After `unpack-blocks` its parts are read, by names as `@"w#q8_0.scales"`.
    """

    name = "mgn.read"
    traits = traits_def(Pure())

    @property
    def parameter_name(self) -> str:
        return self.external_name


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A tensor known at compile time: `%c = mgn.constant dense<1.0> : tensor<f32>`."""

    name = "mgn.constant"
    value = prop_def(DenseIntOrFPElementsAttr)
    result = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, value: DenseIntOrFPElementsAttr) -> None:
        super().__init__(properties={"value": value}, result_types=[value.type])

    @classmethod
    def from_array(cls, array: np.ndarray) -> "ConstantOp":
        """A constant with an array's shape, element type and values."""
        return cls(dense_of(array))

    @property
    def array(self) -> np.ndarray:
        """The value as an array, read-only."""
        return array_of(self.value)

    def verify_(self) -> None:
        if self.value.type != self.result.type:
            raise VerifyException("mgn.constant: value and result differ in type")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        print_dense(printer, self.value)

    @classmethod
    def parse(cls, parser: Parser) -> "ConstantOp":
        return cls(parse_dense(parser))


class MgnConstants(ConstantMaterializationInterface):
    """Makes the `mgn.constant` of a folded attribute, without which xDSL drops the fold."""

    def materialize_constant(self, value: Attribute, type: Attribute) -> Operation | None:
        """The constant of a value; None where the value is not of that type."""
        if not isinstance(value, DenseIntOrFPElementsAttr) or value.type != type:
            return None
        return ConstantOp(value)


class HoldsProgram(Operation, ABC):
    """An operation that computes its results as a graph does: from its operands, which are the
    arguments of its block, by the operations in there.
    """

    @property
    @abstractmethod
    def block(self) -> Block:
        """The operations, and the terminator that names the results."""
        ...


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a graph with its results: `mgn.return %y : tensor<4xf32>`."""

    name = "mgn.return"
    values = var_operand_def(TensorType)
    traits = traits_def(IsTerminator())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, values: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(values)])

    def verify_(self) -> None:
        graph = self.parent_op()
        if not isinstance(graph, GraphOp):
            raise VerifyException("mgn.return: must end an mgn.graph")
        wanted = len(graph.result_names) + len(graph.written_names)
        if len(self.values) != wanted:
            raise VerifyException(f"mgn.return: {len(self.values)} values for {wanted} results")


def _own_type(declared: Mapping[str, DeclaredOp], name: str) -> Attribute | None:
    return declared[name].type if name in declared else None


def _check_declared(
    module: ModuleOp,
    kind: type[Declared],
    what: str,
    where: str,
    accesses: Iterable[tuple[str, Attribute]],
    type_of: Callable[[Mapping[str, Declared], str], Attribute | None] = _own_type,
) -> None:
    """Each name must be declared once, and each access be of a declared one, with its type."""
    declared: dict[str, Declared] = {}
    for op in module.body.block.ops:
        if isinstance(op, kind) and declared.setdefault(op.sym_name.data, op) is not op:
            raise VerifyException(f'{op.name}: two {what}s are named "{op.sym_name.data}"')
    for name, accessed in accesses:
        found = type_of(declared, name)
        if found is None:
            raise VerifyException(f'{where}: there is no {what} @"{name}"')
        if found != accessed:
            raise VerifyException(f'{where}: {what} @"{name}" has type {found}')


@irdl_op_definition
class GraphOp(IRDLOperation):
    """A program with named inputs and named results; its one block ends in `mgn.return`.

    After `thread-states`, what it finds in states are arguments behind its inputs, and what it
    leaves in states are values that it returns behind its results:

        mgn.graph @g("x" = %x: T, state "k" = %k: S) -> ("y" : U, state "k" : S) { … }
    """

    name = "mgn.graph"
    sym_name = prop_def(SymbolNameConstraint())
    inputs = prop_def(ArrayAttr[StringAttr])
    outputs = prop_def(ArrayAttr[StringAttr])
    states = opt_prop_def(ArrayAttr[StringAttr])
    written = opt_prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = traits_def(SymbolOpInterface(), Isolated(), HasParent(ModuleOp))

    def __init__(
        self,
        name: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        body: Region,
        states: Sequence[str] = (),
        written: Sequence[str] = (),
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "inputs": _names(inputs),
                "outputs": _names(outputs),
                "states": _names(states) if states else None,
                "written": _names(written) if written else None,
            },
            regions=[body],
        )

    @property
    def block(self) -> Block:
        return self.body.block

    @property
    def input_names(self) -> list[str]:
        return [item.data for item in self.inputs]

    @property
    def result_names(self) -> list[str]:
        return [item.data for item in self.outputs]

    @property
    def state_names(self) -> list[str]:
        """The states whose values are arguments, behind the inputs."""
        return [item.data for item in self.states or ()]

    @property
    def written_names(self) -> list[str]:
        """The states whose next values are returned, behind the results."""
        return [item.data for item in self.written or ()]

    @property
    def named_inputs(self) -> list[tuple[str, BlockArgument]]:
        """The inputs with their names."""
        return list(zip(self.input_names, self.block.args, strict=False))

    @property
    def named_states(self) -> list[tuple[str, BlockArgument]]:
        """What the graph finds in states, with their names."""
        found = self.block.args[len(self.inputs) :]
        return list(zip(self.state_names, found, strict=True))

    @property
    def named_results(self) -> list[tuple[str, SSAValue]]:
        """The results with their names."""
        return list(zip(self.result_names, self.results_returned, strict=False))

    @property
    def named_written(self) -> list[tuple[str, SSAValue]]:
        """What the graph leaves in states, with their names."""
        left = self.results_returned[len(self.outputs) :]
        return list(zip(self.written_names, left, strict=True))

    @property
    def overwritten(self) -> list[int | None]:
        """For each state that is written the number of the argument that it was found in; None
        where it is not read.
        """
        first = len(self.inputs)
        places = {name: first + number for number, name in enumerate(self.state_names)}
        return [places.get(name) for name in self.written_names]

    @property
    def return_op(self) -> ReturnOp:
        last = self.block.last_op
        if not isinstance(last, ReturnOp):
            raise VerifyException("mgn.graph: must end in mgn.return")
        return last

    @property
    def results_returned(self) -> Sequence[SSAValue]:
        """The values the graph returns: its results, then what it leaves in states."""
        return self.return_op.operands

    def verify_(self) -> None:
        if len(self.block.args) != len(self.inputs) + len(self.state_names):
            raise VerifyException("mgn.graph: number of input names and arguments differ")
        for names in (self.input_names, self.result_names, self.state_names, self.written_names):
            if len(set(names)) != len(names):
                raise VerifyException("mgn.graph: a name is used twice")
        for argument in self.block.args:
            if not isinstance(argument.type, TensorType):
                raise VerifyException("mgn.graph: arguments must be tensors")
            try:
                check_size(argument.type)
            except ShapeError as error:
                raise VerifyException(f"mgn.graph: {error}") from error
            if element_of(argument.type).family is Family.BLOCK:
                raise VerifyException("mgn.graph: an input cannot have a block format")
        _ = self.return_op
        module = self.parent_op()
        if isinstance(module, ModuleOp):
            reads = (op for op in self.walk() if isinstance(op, ReadOp))
            read = ((op.parameter_name, op.result.type) for op in reads)
            _check_declared(module, ParamOp, "parameter", "mgn.read", read, read_type)
            threaded = ((n, value.type) for n, value in (*self.named_states, *self.named_written))
            accesses = (*state_accesses(self), *threaded)
            _check_declared(module, StateOp, "state", "mgn.graph", accesses)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string("(")
        arguments = [("", *item) for item in self.named_inputs]
        arguments += [("state ", *item) for item in self.named_states]
        printer.print_list(arguments, lambda item: _print_named_argument(printer, *item))
        printer.print_string(") -> (")
        returned = [("", *item) for item in self.named_results]
        returned += [("state ", *item) for item in self.named_written]
        printer.print_list(returned, lambda item: _print_named_type(printer, *item))
        printer.print_string(") ")
        if self.attributes:
            printer.print_string("attributes ")
            printer.print_attr_dict(self.attributes)
            printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False)

    @classmethod
    def parse(cls, parser: Parser) -> "GraphOp":
        name = parser.parse_symbol_name().data

        def parse_input() -> tuple[bool, str, Any]:
            is_state = parser.parse_optional_keyword("state") is not None
            label = parser.parse_str_literal()
            parser.parse_punctuation("=")
            return is_state, label, parser.parse_argument()

        def parse_output() -> tuple[bool, str, Attribute, int]:
            is_state = parser.parse_optional_keyword("state") is not None
            label = parser.parse_str_literal()
            parser.parse_punctuation(":")
            position = parser.pos
            return is_state, label, parser.parse_type(), position

        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_input)
        parser.parse_punctuation("->")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parse_output)
        for items in (inputs, outputs):
            if sorted(items, key=lambda item: item[0]) != list(items):
                parser.raise_error("states stand behind inputs and results")
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([argument for *_, argument in inputs])
        last = body.block.last_op
        for returned, (_, label, type, at) in zip(
            last.operands if last else (), outputs, strict=False
        ):
            if returned.type != type:
                message = f"result '{label}' is said to be {type}, but {returned.type} is returned"
                parser.raise_error(message, at, at)
        op = cls(
            name,
            [label for is_state, label, _ in inputs if not is_state],
            [label for is_state, label, *_ in outputs if not is_state],
            body,
            [label for is_state, label, _ in inputs if is_state],
            [label for is_state, label, *_ in outputs if is_state],
        )
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op


def graphs_of(module: ModuleOp) -> Iterator[GraphOp]:
    """The graphs of a module, in order."""
    for op in module.body.block.ops:
        if isinstance(op, GraphOp):
            yield op


def parameters_of(module: ModuleOp) -> dict[str, ParamOp]:
    """The parameters of a module by external name, in order."""
    return {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, ParamOp)}


def read_type(parameters: Mapping[str, ParamOp], name: str) -> TensorType | None:
    """The type in which a parameter, or a part of one that has a block format, is read; None where
    there is none of the name.
    """
    if name in parameters:
        return value_type(parameters[name].type)
    found = part_of_name(name)
    if found is None:
        return None
    whole, format, part = found
    if whole not in parameters or element_of(parameters[whole].type).name != format.name:
        return None
    return tensor(part.element, format.part_shape(part, parameters[whole].type.get_shape()))


def _names(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    return ArrayAttr([StringAttr(name) for name in names])


def _print_named_argument(printer: Printer, kind: str, label: str, argument: Any) -> None:
    printer.print_string(kind)
    printer.print_string_literal(label)
    printer.print_string(" = ")
    printer.print_block_argument(argument)


def _print_named_type(printer: Printer, kind: str, label: str, value: SSAValue) -> None:
    printer.print_string(kind)
    printer.print_string_literal(label)
    printer.print_string(" : ")
    printer.print_attribute(value.type)
