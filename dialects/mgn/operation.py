"""What declares an operation of the `mgn` dialect: a spec, and the IR class made from it.

In: one spec, a row of a table in `operations/` (`elementwise.py`, `movement.py`, …).
Out: its entry in `OPERATIONS` and an xDSL operation class, `spec.op_class`, with a readable format:

    %y = mgn.sum(%x) axis = [1], keepdims = true : (tensor<4x8xf32>) -> tensor<4x1xf32>
    %z = mgn.add(%x, %x) : tensor<4x8xf32>

Everything that must know an operation (language, builder, interpreter, e-graph, kernels) reads the
spec.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import FunctionType, LocationAttr, TensorType
from xdsl.interfaces import HasFolderInterface
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.mgn.attributes import REQUIRED, AttributeKind, same_value
from mgn.dialects.shapes import Shape, ShapeError
from mgn.dialects.types import ElementType, Family, element_of, static_element

ANY = frozenset(Family) - {Family.BLOCK}
NUMERIC = frozenset({Family.FLOAT, Family.SIGNED, Family.UNSIGNED})
FLOATS = frozenset({Family.FLOAT})
INTEGERS = frozenset({Family.SIGNED, Family.UNSIGNED})
BOOLS = frozenset({Family.BOOL})


class Kind(StrEnum):
    """What an operation does to the index space, which is all that kernel templates ask."""

    ELEMENTWISE = "elementwise"  # result[i] from operands[i], NumPy broadcasting
    MOVEMENT = "movement"  # result[i] = operand[f(i)], f known at compile time
    INDEXING = "indexing"  # result[i] = operand[f(i, ids)], f read from memory
    REDUCTION = "reduction"  # result[i] = combine of operand[i, r] over r
    SCAN = "scan"  # result[i, r] = combine of operand[i, q] over q <= r
    SCATTER = "scatter"  # result[i] = combine of operand[i] and src[j] over ids[j] = i
    ORDER = "order"  # result[i, r] = operand[i, p(r)], p the order of the keys in row i
    CONTRACTION = "contraction"  # a sum of products over shared axes
    CONSTANT = "constant"  # no operands
    COMPOSITE = "composite"  # meaning given by its decomposition alone


@dataclass(frozen=True)
class Neutral:
    """What stands for an operand that is left out before one that is given: `value` everywhere, in
    the shape of the operand `like`, without its last axis where `is_a_line_of_it`.
    """

    value: float
    like: str
    is_a_line_of_it: bool = False

    def shape_for(self, like: Shape) -> Shape:
        """The shape, from that of `like`."""
        return like[:-1] if self.is_a_line_of_it else like


@dataclass(frozen=True)
class OperandSpec:
    """One operand. Operands of one `group` share an element type, which literals take.

    `element` fixes the element type instead; `default` is the number used when the operand is left
    out. A `variadic` operand is one list argument, or all remaining arguments where `starred`;
    where `bare`, a value by itself stands for a list of it. A `drawn` one that is left out is the
    key of the run's random numbers. `neutral` stands for one that is left out before another.
    """

    name: str
    accepts: frozenset[Family] = ANY
    group: str = "T"
    element: str | None = None
    default: float | None = None
    optional: bool = False
    variadic: bool = False
    starred: bool = False
    bare: bool = False
    drawn: bool = False
    neutral: Neutral | None = None


@dataclass(frozen=True)
class AttributeSpec:
    """One attribute. `default` may be None, which is stored as an absent attribute."""

    name: str
    kind: AttributeKind
    default: Any = REQUIRED

    def __post_init__(self) -> None:
        if self.default is not REQUIRED and self.default is not None:
            object.__setattr__(self, "default", self.kind.accept(self.default))


Made = tuple[tuple[TensorType, ...], dict[str, Attribute]]
"""The result types and properties of an operation."""

REMEMBERED = 1024
"""Of how many unequal operations a spec remembers that they are right."""


Folder = Callable[["TensorOp"], Sequence[SSAValue | Attribute] | None]

FOLDERS: list[Folder] = []
"""What `TensorOp.fold` asks in turn. `fold.py` enters itself, which computes constants with this
class.
"""


@dataclass(frozen=True, eq=False)
class OperationSpec:
    """One operation: signature, types, and either how NumPy computes it or what it decomposes to.
    Another declaration, though of the same name, is another operation.

    `infer(*operand_types, **attributes)` gives the result type or types and raises ShapeError. A
    variadic operand is passed as a list, an absent optional one as None. `canonical`, with the same
    arguments, gives the attributes that differ in canonical form (non-negative axes, resolved
    defaults). `evaluate(*arrays, **attributes)` computes a core operation on NumPy arrays;
    `decompose(emitter, *values, **attributes)` builds a composite from simpler operations; exactly
    one of the two is given. A decomposition of an elementwise operation is elementwise. `summary`
    begins with an example in the language.
    """

    name: str
    kind: Kind
    summary: str
    signature: tuple[OperandSpec | AttributeSpec, ...]
    infer: Callable[..., TensorType | Sequence[TensorType]]
    evaluate: Callable[..., np.ndarray | Sequence[np.ndarray]] | None = None
    decompose: "Callable[..., SSAValue | Sequence[SSAValue]] | None" = None
    canonical: Callable[..., Mapping[str, Any]] | None = None
    commutative: bool = False
    several_results: bool = False
    operands: tuple[OperandSpec, ...] = field(init=False)
    attributes: tuple[AttributeSpec, ...] = field(init=False)
    op_class: "type[TensorOp]" = field(init=False)
    made: dict[Hashable, Made] = field(
        default_factory=dict[Hashable, Made], init=False, repr=False, compare=False
    )
    verified: set[Hashable] = field(
        default_factory=set[Hashable], init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        operands = tuple(item for item in self.signature if isinstance(item, OperandSpec))
        attributes = tuple(item for item in self.signature if isinstance(item, AttributeSpec))
        object.__setattr__(self, "operands", operands)
        object.__setattr__(self, "attributes", attributes)
        object.__setattr__(self, "op_class", _make_class(self))

    @property
    def is_core(self) -> bool:
        """Whether the interpreter computes it directly."""
        return self.evaluate is not None

    def attribute(self, name: str) -> AttributeSpec:
        """The attribute of that name. KeyError where there is none."""
        return {item.name: item for item in self.attributes}[name]

    def split_operands(self, flat: Sequence[Any]) -> list[Any]:
        """Flat operands as the spec groups them: a list if variadic, None where absent."""
        extra = len(flat) - sum(not (item.optional or item.variadic) for item in self.operands)
        optional = sum(1 for item in self.operands if item.optional)
        if extra < 0 or (extra > optional and not any(item.variadic for item in self.operands)):
            raise ShapeError(f"{len(flat)} operands do not fit the signature")
        if extra == 0 and any(item.variadic for item in self.operands):
            raise ShapeError("a list of operands must not be empty")
        grouped: list[Any] = []
        position = 0
        for item in self.operands:
            if item.variadic:
                grouped.append(list(flat[position : position + extra]))
                position += extra
            elif item.optional and extra == 0:
                grouped.append(None)
            else:
                grouped.append(flat[position])
                position += 1
                extra -= item.optional
        return grouped

    def infer_types(
        self, operand_types: Sequence[Attribute], attributes: Mapping[str, Any]
    ) -> tuple[TensorType, ...]:
        """Result types of flat operand types, with their element types checked. Or ShapeError."""
        grouped = self.split_operands(operand_types)
        self.check_elements(grouped)
        result = self.infer(*grouped, **attributes)
        return (result,) if isinstance(result, TensorType) else tuple(result)

    def check_elements(self, grouped: Sequence[Any]) -> None:
        """Checks the element types of grouped operand types. Raises ShapeError."""
        seen: dict[str, tuple[TensorType, int]] = {}
        flat = [
            (item, type)
            for item, types in zip(self.operands, grouped, strict=True)
            for type in (types if item.variadic else [types] if types is not None else [])
        ]
        for number, (item, type) in enumerate(flat):
            row = static_element(type)
            if row.family not in item.accepts or (item.element and row.name != item.element):
                beside = [
                    (static_element(other), n)
                    for n, (one, other) in enumerate(flat)
                    if one.group == item.group
                ]
                numbers = [pair for pair in beside if pair[0].family in item.accepts]
                if row.family is Family.BOOL and numbers:
                    raise MixedElements(numbers[0], (row, number))
                wanted = item.element or _families(item.accepts)
                raise ShapeError(f"operand '{item.name}' must be {wanted}, not {row.name}")
            first, place = seen.setdefault(item.group, (type, number))
            if item.element is None and first.element_type != type.element_type:
                raise MixedElements((element_of(first), place), (row, number))


class MixedElements(ShapeError):
    """Two operands whose element types should be one: each with its number among the operands. The
    second is to be cast; an integer beside a float, whichever it is.
    """

    def __init__(self, one: tuple[ElementType, int], other: tuple[ElementType, int]) -> None:
        kept, self.number = one[0], other[1]
        if other[0].is_float and not kept.is_float:
            kept, self.number = other[0], one[1]
        self.said = f"operands have different element types {one[0].name} and {other[0].name}"
        self.wanted = kept.name
        self.cast = (one if self.number == one[1] else other)[0].name
        super().__init__(self.naming(None))

    def naming(self, value: str | None) -> str:
        """The message, for an operand of that name, or for one that has none."""
        if value is None:
            return f"{self.said}; use cast(x, {self.wanted}), where x is that in {self.cast}"
        return f"{self.said}; use cast({value}, {self.wanted})"


def _families(accepted: frozenset[Family]) -> str:
    """The families of element types as a message names them."""
    integers = {Family.SIGNED, Family.UNSIGNED}
    both = accepted >= integers
    names = [str(family) for family in accepted if not both or family not in integers]
    return " or ".join(sorted([*names, "integer"] if both else names))


class TensorOp(IRDLOperation, HasFolderInterface):
    """Base of every operation made from a spec. Attribute values are read with `values`."""

    SPEC: ClassVar[OperationSpec]

    @property
    def spec(self) -> OperationSpec:
        """The declaration this operation's class was made from."""
        return self.SPEC

    @property
    def values(self) -> dict[str, Any]:
        """Attribute values, decoded, with None for absent ones."""
        return {
            item.name: None
            if (stored := self.properties.get(item.name)) is None
            else item.kind.decode(stored)
            for item in self.spec.attributes
        }

    @property
    def grouped_operands(self) -> list[Any]:
        """Operands as the spec groups them."""
        return self.spec.split_operands(self.operands)

    def fold(self) -> Sequence[SSAValue | Attribute] | None:
        """What replaces the results, for xDSL's folder."""
        answers = (folder(self) for folder in FOLDERS)
        return next((answer for answer in answers if answer is not None), None)

    def verify_(self) -> None:
        operands, results = self.operand_types, self.result_types
        key = (tuple(operands), tuple(results), tuple(self.properties.items()))
        if key in self.spec.verified:
            return
        self._check()
        if len(self.spec.verified) >= REMEMBERED:
            self.spec.verified.clear()
        self.spec.verified.add(key)

    def _check(self) -> None:
        """All that is to be verified, which is a matter of types and attributes."""
        try:
            values = self._checked_values()
            operand_types = [operand.type for operand in self.operands]
            grouped = self.spec.split_operands(operand_types)
            self.spec.check_elements(grouped)
            if self.spec.canonical is not None:
                for name, value in self.spec.canonical(*grouped, **values).items():
                    if not same_value(value, values[name]):
                        raise ShapeError(f"{name} must be in canonical form, {value}")
            inferred = self.spec.infer_types(operand_types, values)
        except ShapeError as error:
            raise VerifyException(f"{self.name}: {error}") from error
        declared = tuple(result.type for result in self.results)
        if inferred != declared:
            wanted = ", ".join(str(type) for type in inferred)
            raise VerifyException(f"{self.name}: result type must be {wanted}")

    def _checked_values(self) -> dict[str, Any]:
        """The attribute values. ShapeError where one is missing or of another kind."""
        values: dict[str, Any] = {}
        for item in self.spec.attributes:
            stored = self.properties.get(item.name)
            if stored is None and item.default is not None:
                raise ShapeError(f"attribute '{item.name}' is missing")
            try:
                values[item.name] = None if stored is None else item.kind.decode(stored)
            except (AttributeError, KeyError, TypeError) as error:
                message = f"attribute '{item.name}' must be of kind {item.kind.name}"
                raise ShapeError(message) from error
        return values

    def print(self, printer: Printer) -> None:
        printer.print_string("(")
        printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_string(")")
        for index, (item, value) in enumerate(self._written_attributes()):
            printer.print_string(f" {item.name} = " if index == 0 else f", {item.name} = ")
            item.kind.print(printer, value)
        printer.print_string(" : ")
        types = [value.type for value in (*self.operands, *self.results)]
        if self.operands and len(self.results) == 1 and len(set(types)) == 1:
            printer.print_attribute(types[0])
        else:
            printer.print_attribute(
                FunctionType.from_lists(
                    [operand.type for operand in self.operands],
                    [result.type for result in self.results],
                )
            )

    def _written_attributes(self) -> Iterator[tuple[AttributeSpec, Any]]:
        for item in self.spec.attributes:
            value = self.values[item.name]
            if value is not None and not same_value(value, item.default):
                yield item, value

    @classmethod
    def parse(cls, parser: Parser) -> "TensorOp":
        unresolved = parser.parse_comma_separated_list(
            parser.Delimiter.PAREN, parser.parse_unresolved_operand
        )
        values = {
            item.name: item.default for item in cls.SPEC.attributes if item.default is not REQUIRED
        }
        while (name := parser.parse_optional_identifier()) is not None:
            try:
                item = cls.SPEC.attribute(name)
            except KeyError:
                parser.raise_error(f"{cls.name} has no attribute '{name}'")
            parser.parse_punctuation("=")
            values[name] = item.kind.parse(parser)
            if parser.parse_optional_punctuation(",") is None:
                break
        parser.parse_punctuation(":")
        type = parser.parse_type()
        if isinstance(type, FunctionType):
            operand_types, result_types = type.inputs.data, type.outputs.data
        else:
            operand_types, result_types = (type,) * len(unresolved), (type,)
        operands = parser.resolve_operands(unresolved, operand_types, parser.pos)
        return cls.create(
            operands=operands,
            result_types=result_types,
            properties=encode_attributes(cls.SPEC, values),
        )


def encode_attributes(spec: OperationSpec, values: Mapping[str, Any]) -> dict[str, Attribute]:
    """Attribute values as the properties of an operation; None is left out."""
    return {
        item.name: item.kind.encode(values[item.name])
        for item in spec.attributes
        if values.get(item.name) is not None
    }


OPERATIONS: dict[str, OperationSpec] = {}


def define(spec: OperationSpec) -> OperationSpec:
    """Enters an operation into `OPERATIONS`; a second one of the same name is an error."""
    if spec.name in OPERATIONS:
        raise ValueError(f"operation {spec.name} is declared twice")
    if (spec.evaluate is None) == (spec.decompose is None):
        raise ValueError(f"operation {spec.name} needs either evaluate or decompose")
    OPERATIONS[spec.name] = spec
    return spec


def _make_class(spec: OperationSpec) -> type[TensorOp]:
    body: dict[str, Any] = {
        "__module__": __name__,
        "__doc__": spec.summary,
        "name": f"mgn.{spec.name}",
        "traits": traits_def(Pure()),
    }
    if sum(item.optional or item.variadic for item in spec.operands) > 1:
        body["operand_values"] = var_operand_def(TensorType)  # grouped by `split_operands`
    else:
        for item in spec.operands:
            define_operand = (
                var_operand_def
                if item.variadic
                else opt_operand_def
                if item.optional
                else operand_def
            )
            body[f"{item.name}_operand"] = define_operand(TensorType)
    for item in spec.attributes:
        body[f"{item.name}_attribute"] = opt_prop_def(Attribute, prop_name=item.name)
    body["outputs"] = var_result_def(TensorType) if spec.several_results else result_def(TensorType)
    class_name = "".join(part.capitalize() for part in spec.name.split("_")) + "Op"
    made = cast(type[TensorOp], irdl_op_definition(type(class_name, (TensorOp,), body)))
    made.SPEC = spec
    return made


def create_operation(
    spec: OperationSpec,
    operands: Sequence[SSAValue],
    attributes: Mapping[str, Any],
    location: LocationAttr | None = None,
) -> TensorOp:
    """An operation with canonical attributes and inferred result types. Raises ShapeError.

    `operands` is flat: a variadic operand's values stand in its place, an absent one is left out.
    """
    operand_types = tuple([operand.type for operand in operands])
    try:
        result_types, properties = _made(spec, operand_types, attributes)
    except MixedElements as error:
        named = error.naming(operands[error.number].name_hint)
        raise ShapeError(named) from None
    op = spec.op_class.create(
        operands=operands, result_types=result_types, properties=dict(properties)
    )
    if location is not None:
        op.location = location
    return op


def _made(
    spec: OperationSpec, operand_types: tuple[Attribute, ...], attributes: Mapping[str, Any]
) -> Made:
    """The types and properties of an operation, found once for equal operands and attributes."""
    values = dict(attributes)
    given = [(name, type(value), repr(value)) for name, value in values.items()]
    key = (operand_types, *given)  # by their texts, since 0.0 equals -0.0, and 1 True
    found = spec.made.get(key)
    if found is not None:
        return found
    if spec.canonical is not None:
        values.update(spec.canonical(*spec.split_operands(operand_types), **values))
    result_types = spec.infer_types(operand_types, values)
    if len(spec.made) >= REMEMBERED:
        spec.made.clear()
    found = spec.made[key] = (result_types, encode_attributes(spec, values))
    return found


def is_tensor_op(op: Operation, *names: str) -> bool:
    """Whether `op` is one of the named operations of the language."""
    return isinstance(op, TensorOp) and op.spec.name in names
