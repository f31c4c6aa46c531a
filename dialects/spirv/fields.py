"""The order of an instruction's operands, where one operand decides which follow.

In: an instruction of the table. Out: a generator of the fields to come; it is told each operand's
value. The printer, the parser and both directions of the words go through it.
"""

from collections.abc import Generator, Iterator, Sequence

from mgn.diagnostics import MgnError
from mgn.dialects.spirv.enums import ENUMS
from mgn.dialects.spirv.opencl_std import BY_NUMBER
from mgn.dialects.spirv.table import Field, Instruction

Fields = Generator[Field, object, None]
"""Yields a field, is sent its value: the number for a literal, anything for an id, and None where
an optional field is absent or a variadic one has ended."""


def operand_fields(row: Instruction) -> Fields:
    """All operands of an instruction after its type and result."""
    for field in row.fields:
        yield from _field(field)


def _field(field: Field) -> Fields:
    while True:
        value = yield field
        if value is None:
            return
        for following in _following(field, value):
            yield from _field(following)
        if not field.variadic:
            return


def _following(field: Field, value: object) -> Iterator[Field]:
    if not isinstance(value, int):
        return
    if field.kind == "extended" and value in BY_NUMBER:
        yield from BY_NUMBER[value].fields
    if field.kind in ENUMS:
        for member in ENUMS[field.kind].members(value):
            yield from member.parameters


class OperandError(MgnError, ValueError):
    """An instruction has too few or too many operands, or one that its field cannot hold."""


def paired_operands(
    row: Instruction, ids: Sequence[object], literals: Sequence[int | str]
) -> list[tuple[Field, object]]:
    """Each operand with its field, in order. OperandError where they do not fit the table."""
    pairs: list[tuple[Field, object]] = []
    id_count = literal_count = 0
    fields = operand_fields(row)
    sent: object = None
    while True:
        try:
            field = fields.send(sent)
        except StopIteration:
            break
        except KeyError as error:
            raise OperandError(f"{row.name} has an unknown member {error}") from None
        value: object = None
        if field.kind == "id":
            if id_count < len(ids):
                value = ids[id_count]
                id_count += 1
        elif literal_count < len(literals):
            value = literals[literal_count]
            literal_count += 1
        if value is not None:
            _check_literal(row, field, value)
            pairs.append((field, value))
        elif not (field.optional or field.variadic):
            raise OperandError(f"{row.name} lacks its operand '{field.name}'")
        sent = value
    if id_count < len(ids) or literal_count < len(literals):
        raise OperandError(f"{row.name} has more operands than the specification gives it")
    return pairs


MOST_KNOWN = 10_000
"""Of how many unequal instructions it is remembered that their operands fit."""

_fitting: set[tuple[str, int, tuple[int | str, ...]]] = set()


def check_operands(
    row: Instruction, ids: Sequence[object], literals: tuple[int | str, ...]
) -> None:
    """The same errors, which are a matter of the number of ids and of the literals alone."""
    key = (row.name, len(ids), literals)
    if key in _fitting:
        return
    paired_operands(row, ids, literals)
    if len(_fitting) >= MOST_KNOWN:
        _fitting.clear()
    _fitting.add(key)


def _check_literal(row: Instruction, field: Field, value: object) -> None:
    if field.kind == "id":
        return
    if isinstance(value, str) != (field.kind == "string"):
        raise OperandError(f"{row.name}: '{field.name}' cannot be {value!r}")
    limit = 64 if field.kind == "number" else 32
    if isinstance(value, int) and not 0 <= value < 1 << limit:
        raise OperandError(f"{row.name}: '{field.name}' does not fit {limit} bits: {value}")
    if isinstance(value, str) and "\0" in value:
        raise OperandError(f"{row.name}: '{field.name}' holds a zero character")
