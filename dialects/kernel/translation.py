"""The walk over a kernel's operations, each translated by its row in a table.

In: operations in order, and a table from operation class to row. Out: whatever the rows make;
`value` says what stands for a value. A target of kernels derives from `Translation`.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects.places import text_place

Result = TypeVar("Result")


class Translation(Generic[Result]):
    """A kernel on its way to a target, where a `Result` stands for each value.

    `ERROR` is what is raised for an operation without a row, which `MISSING` words.
    """

    ERROR: ClassVar[type[Exception]]
    MISSING: ClassVar[str]

    def __init__(self, rows: Mapping[type[Operation], Callable[[Any, Any], Result | None]]) -> None:
        self.rows = rows
        self._values: dict[SSAValue, Result] = {}

    def block(self, block: Block) -> None:
        """All operations of a block."""
        for operation in block.ops:
            self.operation(operation)

    def operation(self, operation: Operation) -> None:
        """One operation, by its row, which gives what stands for its only result, or None."""
        row = self.rows.get(type(operation))
        if row is None:
            raise self.error(operation, self.MISSING)
        result = row(self, operation)
        if result is not None:
            self.bind(operation.results[0], result)

    def error(self, operation: Operation, message: str) -> Exception:
        """An error that names the operation and its place."""
        location = text_place(operation.location)
        place = operation.name
        if location is not None:
            file, line, column = location.filename.data, location.line.data, location.column.data
            place = f"{file}:{line}:{column}: {operation.name}"
        return self.ERROR(f"{place} {message}: {str(operation).splitlines()[0]}")

    def value(self, value: SSAValue) -> Result:
        """What stands for a value."""
        return self._values[value]

    def values(self, operation: Operation) -> list[Result]:
        """What stands for the operands."""
        return [self._values[operand] for operand in operation.operands]

    def set(self, value: SSAValue, result: Result) -> None:
        """Let something stand for a value."""
        self._values[value] = result

    def bind(self, value: SSAValue, result: Result) -> None:
        """Let a row's answer stand for a value; a target may give it a name first."""
        self.set(value, result)
