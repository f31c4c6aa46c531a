"""MLIR text in and out: parsing that keeps source positions, and a check of whole modules.

In: text in which every operation may stand in its own syntax. Out: a module whose operations know
the line and column they came from, so that a later error can be shown in the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from io import StringIO
from struct import error as StructError

from xdsl.context import Context
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AnyFloat,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    Float80Type,
    Float128Type,
    IndexType,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue, TypeAttribute
from xdsl.parser import AttrParser, Parser, ParserState
from xdsl.printer import Printer
from xdsl.traits import SymbolTable
from xdsl.utils.exceptions import DiagnosticException
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer

from mgn.diagnostics import MgnError
from mgn.dialects.dense import print_elements
from mgn.modules.verification import verify_whole

WIDEST_INTEGER = (1 << 24) - 1
"""MLIR's own limit, in bits; xDSL would work out the bounds of any width."""

MOST_ERRORS = 20
"""A module's check stops after so many errors."""

_UNORDERED = frozenset(("spirv.module",))
"""Operations in which a value may be used above its definition, and that check uses themselves."""


@dataclass(frozen=True)
class Violation:
    """An operation that breaks a rule of its dialect."""

    operation: Operation
    message: str


class InvalidModule(MgnError):
    """A module does not verify."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__(violations[0].message)
        self.violations = violations


class Lexer(MLIRLexer):
    """xDSL's lexer, whose pattern for strings takes exponential time on one that does not end."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')


class _Element(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """An element of `dense<…>`. A hexadecimal float is its bits, which xDSL takes for a number."""

    def to_type(
        self, parser: AttrParser, type: AnyFloat | IntegerType | IndexType | ComplexType
    ) -> int | float | tuple[float, float] | tuple[int, int]:
        text = self.span.text
        if not isinstance(type, AnyFloat) or "0x" not in text or not isinstance(self.value, int):
            return super().to_type(parser, type)
        size = type.compile_time_size
        if self.is_negative or self.value >> 8 * size:
            message = f"a hexadecimal {type} is its bits: 0x and {2 * size} digits at most"
            parser.raise_error(message, self.span.start, self.span.end)
        return next(type.iter_unpack(self.value.to_bytes(size, "little")))


class LocatingParser(Parser):
    """xDSL's parser; an operation without a location gets the place of its first token."""

    _TensorLiteralElement = _Element

    def __init__(self, context: Context, text: str, name: str) -> None:
        super().__init__(context, "", name)
        self._parser_state = ParserState(Lexer(Input(text, name)))
        self._file = StringAttr(name)
        self._line = 1
        self._line_start = 0

    def parse_operation(self) -> Operation:
        start = self._current_token.span.start
        line, column = self._place(start)
        try:
            op = super().parse_operation()
        except (
            DiagnosticException,
            ValueError,
            ArithmeticError,
            StructError,
        ) as fault:  # of attributes that xDSL cannot make
            self.raise_error(str(fault))
        except TypeError as fault:  # of an attribute of another kind
            self.raise_error(f"an attribute must be {fault}")
        except RecursionError:
            self.raise_error("the program is nested too deep")
        if op.location == UNKNOWN_LOC:
            op.location = FileLineColLoc(self._file, IntAttr(line), IntAttr(column))
        return op

    def _parse_optional_integer_or_float_type(self) -> TypeAttribute | None:
        start = self._current_token.span.start
        type = super()._parse_optional_integer_or_float_type()
        if isinstance(type, Float80Type | Float128Type):  # which xDSL reads and cannot print
            self.raise_error(f"mgn has no type {type}", start, start + 1)
        if isinstance(type, IntegerType) and type.width.data > WIDEST_INTEGER:
            message = f"an integer type has at most {WIDEST_INTEGER} bits"
            self.raise_error(message, start, start + 1)
        return type

    def _place(self, position: int) -> tuple[int, int]:
        """Line and column of a position. Positions come in rising order: lines are counted once."""
        text = self.lexer.input.content
        if position < self._line_start:
            return self._line, 1
        self._line += text.count("\n", self._line_start, position)
        newline = text.rfind("\n", self._line_start, position)
        if newline >= 0:
            self._line_start = newline + 1
        return self._line, position - self._line_start + 1


class _Printer(Printer):
    """xDSL's printer, whose hexadecimal floats xDSL reads back as other numbers."""

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, DenseIntOrFPElementsAttr):
            print_elements(self, attribute)
        else:
            super().print_attribute(attribute)


def parse_mlir(text: str, context: Context, name: str = "<text>") -> ModuleOp:
    """A module from MLIR text. Raises xDSL's ParseError; the module is not verified yet."""
    return LocatingParser(context, text, name).parse_module()


def print_mlir(module: Operation, generic: bool = False) -> str:
    """An operation as MLIR text, with a newline at its end; every operation in MLIR's generic form
    where that is asked for.
    """
    stream = StringIO()
    _Printer(stream, print_generic_format=generic).print_op(module)
    stream.write("\n")
    return stream.getvalue()


def check_module(module: ModuleOp) -> None:
    """Verifies a module, and that values are defined before their use. Raises InvalidModule."""
    try:
        verify_whole(module)
    except Exception as error:
        raise InvalidModule(_violations(module) or [Violation(module, str(error))]) from None
    misplaced = list(_uses_before_definition(module))
    if misplaced:
        raise InvalidModule(misplaced[:MOST_ERRORS])


def _violations(module: ModuleOp) -> list[Violation]:
    found: list[Violation] = []
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except Exception as error:  # xDSL's own verifiers raise plain ones too
            found.extend(_symbols_again(op) or [Violation(op, str(error))])
        if len(found) >= MOST_ERRORS:
            break
    return found[:MOST_ERRORS]


def _symbols_again(table: Operation) -> list[Violation]:
    """Of an operation that holds symbols: where one has the name of another above it."""
    if not table.has_trait(SymbolTable) or [len(part.blocks) for part in table.regions] != [1]:
        return []
    found: list[Violation] = []
    seen: set[str] = set()
    for op in table.regions[0].ops:
        symbol = op.get_attr_or_prop("sym_name")
        if not isinstance(symbol, StringAttr):
            continue
        if symbol.data in seen:
            found.append(Violation(op, f"symbol '{symbol.data}' is defined a second time"))
        seen.add(symbol.data)
    return found


def _uses_before_definition(module: ModuleOp) -> Iterator[Violation]:
    """Uses of a value above its definition, in regions of one block."""
    defined: set[SSAValue] = set()
    pending: list[Iterator[Operation]] = [iter(module.body.block.ops)]
    while pending:
        op = next(pending[-1], None)
        if op is None:
            pending.pop()
            continue
        for index, operand in enumerate(op.operands):
            if operand not in defined and not isinstance(operand.owner, Block):
                yield Violation(op, f"operand {index} of {op.name} is used before it is defined")
        defined.update(op.results)
        if op.name not in _UNORDERED:
            pending.extend(
                iter(region.block.ops) for region in op.regions if len(region.blocks) == 1
            )
