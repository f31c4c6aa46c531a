"""Reads a package from bytes that anyone may have written.

In: the content of a file. Out: a `Package` in which every number has been checked against what it
refers to; or a `PackageError` with the place of what is wrong. Nothing is read outside the bytes,
and time and memory are in proportion to their number, for every row uses what is next in line.
"""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from math import prod
from typing import NoReturn, TypeVar

import numpy as np

from mgn.codegen.launch_plan import (
    BufferKind,
    BufferPlan,
    CopyStep,
    LaunchPlan,
    LaunchStep,
    OutputPlan,
)
from mgn.codegen.signature import ELEMENT_BYTES, KernelArgument, KernelSignature
from mgn.diagnostics import one_line
from mgn.runtime.errors import PackageError
from mgn.runtime.host_arrays import DTYPES
from mgn.runtime.packages.format import (
    ACCESSES,
    BLOCK_ALIGNMENT,
    CHECKED_FROM,
    ELEMENTS,
    HEADER,
    HEADER_BYTES,
    KINDS,
    MAGIC,
    MOST_BYTES,
    MOST_DIMENSIONS,
    START,
    STEPS,
    TABLE_ALIGNMENT,
    TABLES,
    TABLES_AT,
    VERSION,
    Package,
    PackagedKernel,
    aligned,
)

_Code = TypeVar("_Code")
_SPIRV_MAGIC = struct.pack("<I", 0x07230203)
_SPIRV_HEADER = 20
_MOST_SAID = 400
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PLACES = tuple(range(TABLES_AT, HEADER_BYTES, 16))


def read_package(data: bytes, name: str = "the package") -> Package:
    """The package that a file holds; `name` is the file's, for messages."""
    return _Reader(data, name).package()


class _Reader:
    """Reads the tables in the order in which they were written."""

    def __init__(self, data: bytes, name: str) -> None:
        self._data = data
        self._name = name
        size, *fields = self._check_file()
        self._named, (self._arena, *self._statistics) = fields[:4], fields[4:7]
        self._tables = dict(zip(TABLES, zip(fields[7::2], fields[8::2], strict=True), strict=True))
        for (table, (place, count)), entry in zip(self._tables.items(), _PLACES, strict=True):
            if place % TABLE_ALIGNMENT or place < HEADER_BYTES or place > size:
                self._fail(entry, f"the table of {table} cannot begin at {place}")
            if count > (size - place) // TABLES[table].size:
                self._fail(entry + 8, f"the file has no room for {count} {table}")
        self._used = dict.fromkeys(TABLES, 0)
        self._end_of_blocks = HEADER_BYTES
        self._prepared: set[int] = set()

    def package(self) -> Package:
        """All of the file."""
        name = self._string(self._named[:2], START.size + 8)
        device = self._string(self._named[2:], START.size + 16)
        if self._arena > MOST_BYTES:
            self._fail(START.size + 24, f"no device has an arena of {self._arena} bytes")
        kernels = dict(self._kernel(at, row) for at, row in self._rows("kernels"))
        if len(kernels) != self._tables["kernels"][1]:
            self._fail(self._tables["kernels"][0], "two kernels have one name")
        parameters: dict[str, np.ndarray] = {}
        buffers = [self._buffer(at, row, parameters) for at, row in self._rows("buffers")]
        for kind in (BufferKind.INPUT, BufferKind.PARAM, BufferKind.STATE):
            names = [buffer.name for buffer in buffers if buffer.kind is kind]
            self._check_distinct("buffers", f"{kind}s", names)
        launches = list(kernels.items())
        prepare, steps = self._steps(buffers, launches)
        outputs = [self._output(at, row, buffers) for at, row in self._rows("outputs")]
        self._check_distinct("outputs", "outputs", [output.name for output in outputs])
        self._check_ends()
        tensor_bytes, lower_bound = self._statistics
        plan = LaunchPlan(
            *(name, self._arena, tuple(buffers), tuple(steps), tuple(outputs)),
            *(tensor_bytes, lower_bound, tuple(prepare)),
        )
        return Package(plan, kernels, parameters, device)

    def _check_file(self) -> tuple[int, ...]:
        """The header of a file that is whole."""
        data = self._data
        if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
            raise PackageError(f"{self._name} is no mgn package (a .mgnpkg file)")
        if len(data) < HEADER_BYTES:
            self._fail(len(data), f"it ends within its header of {HEADER_BYTES} bytes")
        _, version, checksum = START.unpack_from(data)
        if version != VERSION:
            raise PackageError(
                f"{self._name} has version {version} of the package format; this mgn reads "
                f"version {VERSION}: build the package again",
                len(MAGIC),
            )
        fields = HEADER.unpack_from(data, START.size)
        if fields[0] != len(data):
            self._fail(START.size, f"it should have {fields[0]} bytes, and has {len(data)}")
        if zlib.crc32(memoryview(data)[CHECKED_FROM:]) != checksum:
            self._fail(START.size - 4, "its content does not fit its checksum")
        return fields

    def _kernel(self, at: int, row: Sequence[int]) -> tuple[str, PackagedKernel]:
        name, *entries = (self._string(row[i : i + 2], at + 4 * i) for i in (0, 2, 4))
        sizes, blocks, (local_memory, first, count) = row[6:12], row[12:16], row[16:]
        spirv = bytes(self._block(blocks[0], blocks[1], at + 72))
        source = self._source(bytes(self._block(blocks[2], blocks[3], at + 88)), at + 88)
        if not (spirv or source):
            self._fail(at + 72, f"kernel '{name}' has no program")
        if spirv and (len(spirv) % 4 or not _is_spirv(spirv)):
            self._fail(at + 72, f"what kernel '{name}' has is no SPIR-V")
        for entry, program, offset in ((entries[0], spirv, 8), (entries[1], source, 16)):
            if bool(program) != bool(_IDENTIFIER.fullmatch(entry)):
                self._fail(at + offset, f"kernel '{name}' cannot have the entry point {entry!r}")
        whole, local = sizes[:3], sizes[3:]
        if 0 in sizes or any(a % b for a, b in zip(whole, local, strict=True)):
            self._fail(at + 24, f"kernel '{name}' cannot run on {whole} in groups of {local}")
        launch = KernelSignature(
            *(entries[1], source, (whole[0], whole[1], whole[2]), (local[0], local[1], local[2])),
            *(self._arguments(first, count, at + 112), local_memory),
        )
        shared = (launch.global_size, launch.local_size, launch.arguments, local_memory)
        binary = KernelSignature(entries[0], "", *shared, il=spirv) if spirv else None
        return name, PackagedKernel(launch if source else None, binary)

    def _source(self, data: bytes, at: int) -> str:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            self._fail(at, "a kernel's OpenCL C is not UTF-8")
        if "\0" in text:
            self._fail(at, "a kernel's OpenCL C has a zero byte")
        return text

    def _arguments(self, first: int, count: int, at: int) -> tuple[KernelArgument, ...]:
        arguments: list[KernelArgument] = []
        for place, (access, element, length) in self._take("arguments", first, count, at):
            name = self._code(ELEMENTS, element, place + 4, "element")
            if name not in ELEMENT_BYTES:
                self._fail(place + 4, f"a kernel's argument cannot hold {name}")
            mode = self._code(ACCESSES, access, place, "access")
            arguments.append(KernelArgument(mode, name, length))
        return tuple(arguments)

    def _buffer(self, at: int, row: Sequence[int], parameters: dict[str, np.ndarray]) -> BufferPlan:
        kind = self._code(KINDS, row[0], at, "kind of buffer")
        element = self._code(ELEMENTS, row[1], at + 4, "element")
        name = self._string(row[2:4], at + 8)
        shape = self._shape(row[4], row[5], at + 16)
        place, size = row[6:]
        if size != _bytes(element, shape):
            self._fail(at + 32, f"buffer '{name}' cannot have {size} bytes")
        if kind is BufferKind.VIEW:
            if place + size > self._arena:
                self._fail(at + 24, f"view '{name}' lies outside of the arena")
            return BufferPlan(kind, name, element, shape, place)
        if kind in (BufferKind.INPUT, BufferKind.DERIVED) and place:
            self._fail(at + 24, f"{kind} '{name}' cannot have data")
        has_data = kind is BufferKind.CONSTANT or place != 0
        block = self._block(place, size if has_data else 0, at + 24)
        value = np.frombuffer(block, DTYPES[element]).reshape(shape) if len(block) == size else None
        if kind is BufferKind.PARAM and value is not None:
            parameters[name] = value
        planned = kind is BufferKind.CONSTANT or (kind is BufferKind.STATE and len(block) > 0)
        return BufferPlan(kind, name, element, shape, value=value if planned else None)

    def _steps(
        self, buffers: Sequence[BufferPlan], kernels: Sequence[tuple[str, PackagedKernel]]
    ) -> tuple[list[LaunchStep], list[LaunchStep | CopyStep]]:
        """The preparing steps, which come first, and those of a run."""
        prepare: list[LaunchStep] = []
        steps: list[LaunchStep | CopyStep] = []
        for at, row in self._rows("steps"):
            kind = self._code(STEPS, row[0], at, "kind of step")
            if kind != "prepare":
                steps.append(self._step(kind, at, row, buffers, kernels))
            elif steps:
                self._fail(at, "a step prepares after a run has begun")
            else:
                prepare.append(self._preparing_step(at, row, buffers, kernels))
        return prepare, steps

    def _preparing_step(
        self,
        at: int,
        row: Sequence[int],
        buffers: Sequence[BufferPlan],
        kernels: Sequence[tuple[str, PackagedKernel]],
    ) -> LaunchStep:
        operands, sizes = self._operands(at, row, buffers)
        name, kernel = self._kernel_for(at, row, kernels, sizes)
        accesses = [argument.access for argument in kernel.launch.arguments]
        for access, number in zip(accesses, operands, strict=True):
            kind = buffers[number].kind
            if access != "read":
                continue
            if kind not in (BufferKind.PARAM, BufferKind.CONSTANT, BufferKind.DERIVED):
                self._fail(at, f"a step prepares from {kind} '{buffers[number].name}'")
            self._check_prepared(buffers, (number,), at)
        for access, number in zip(accesses, operands, strict=True):
            buffer = buffers[number]
            if access == "read":
                continue
            if access != "write" or buffer.kind is not BufferKind.DERIVED:
                self._fail(at, f"a step prepares {buffer.kind} '{buffer.name}'")
            if number in self._prepared:
                self._fail(at, f"'{buffer.name}' is prepared twice")
            self._prepared.add(number)
        return LaunchStep(name, tuple(operands))

    def _step(
        self,
        kind: str,
        at: int,
        row: Sequence[int],
        buffers: Sequence[BufferPlan],
        kernels: Sequence[tuple[str, PackagedKernel]],
    ) -> LaunchStep | CopyStep:
        operands, sizes = self._operands(at, row, buffers)
        self._check_prepared(buffers, operands, at)
        if kind == "copy":
            if row[1] or len(operands) != 2 or sizes[0] != sizes[1]:
                self._fail(at, "a copy takes two buffers of one size")
            self._check_written(buffers[operands[1]], at)
            return CopyStep(*operands)
        name, kernel = self._kernel_for(at, row, kernels, sizes)
        for argument, number in zip(kernel.launch.arguments, operands, strict=True):
            if argument.access != "read":
                self._check_written(buffers[number], at)
        return LaunchStep(name, tuple(operands))

    def _operands(
        self, at: int, row: Sequence[int], buffers: Sequence[BufferPlan]
    ) -> tuple[list[int], list[int]]:
        """The buffers of a step, and their bytes."""
        operands = [number for _, (number,) in self._take("operands", row[2], row[3], at + 8)]
        if any(number >= len(buffers) for number in operands):
            self._fail(at + 8, "a step names a buffer that there is not")
        return operands, [_bytes(buffers[item].element, buffers[item].shape) for item in operands]

    def _kernel_for(
        self,
        at: int,
        row: Sequence[int],
        kernels: Sequence[tuple[str, PackagedKernel]],
        sizes: Sequence[int],
    ) -> tuple[str, PackagedKernel]:
        """The kernel that a step launches on buffers of these sizes."""
        if row[1] >= len(kernels):
            self._fail(at + 4, "a step names a kernel that there is not")
        name, kernel = kernels[row[1]]
        if [argument.bytes for argument in kernel.launch.arguments] != list(sizes):
            self._fail(at + 8, f"the buffers of a step do not fit kernel '{name}'")
        return name, kernel

    def _output(self, at: int, row: Sequence[int], buffers: Sequence[BufferPlan]) -> OutputPlan:
        name = self._string(row[:2], at)
        element = self._code(ELEMENTS, row[3], at + 12, "element")
        shape = self._shape(row[4], row[5], at + 16)
        if row[2] >= len(buffers):
            self._fail(at + 8, f"output '{name}' names a buffer that there is not")
        self._check_prepared(buffers, row[2:3], at + 8)
        buffer = buffers[row[2]]
        if _bytes(buffer.element, buffer.shape) != _bytes(element, shape):
            self._fail(at + 8, f"output '{name}' does not fit its buffer")
        return OutputPlan(name, row[2], element, shape)

    def _check_prepared(
        self, buffers: Sequence[BufferPlan], numbers: Sequence[int], at: int
    ) -> None:
        for number in numbers:
            if buffers[number].kind is BufferKind.DERIVED and number not in self._prepared:
                self._fail(at, f"nothing prepares '{buffers[number].name}'")

    def _check_written(self, buffer: BufferPlan, at: int) -> None:
        if buffer.kind not in (BufferKind.VIEW, BufferKind.STATE):
            what = f"{buffer.kind} '{buffer.name}'"
            self._fail(at, f"a step writes {what}, which is no view and no state")

    def _check_distinct(self, table: str, what: str, names: Sequence[str]) -> None:
        if len(set(names)) != len(names):
            self._fail(self._tables[table][0], f"two {what} have one name")

    def _check_ends(self) -> None:
        """Nothing in the file may be left over."""
        end = self._end_of_blocks
        for (table, (place, count)), entry in zip(self._tables.items(), _PLACES, strict=True):
            if not self._follows(end, place, TABLE_ALIGNMENT):
                self._fail(entry, f"the table of {table} does not follow what is before it")
            if self._used[table] != count:
                self._fail(entry + 8, f"of {count} {table}, {self._used[table]} are used")
            end = place + count * TABLES[table].size
        if end != len(self._data):
            self._fail(end, "there is something behind the last table")

    def _shape(self, first: int, count: int, at: int) -> tuple[int, ...]:
        if count > MOST_DIMENSIONS:
            self._fail(at + 4, f"{count} dimensions, more than {MOST_DIMENSIONS}")
        shape = tuple(size for _, (size,) in self._take("dimensions", first, count, at))
        if prod(max(size, 1) for size in shape) > MOST_BYTES:
            self._fail(at, f"no tensor has the shape {list(shape)}")
        return shape

    def _string(self, named: Sequence[int], at: int) -> str:
        first, length = named
        place, _ = self._tables["strings"]
        self._claim("strings", first, length + 1, at)
        *text, end = self._data[place + first : place + first + length + 1]
        if end != 0 or 0 in text:
            self._fail(at, "a name does not end at its zero byte")
        try:
            return bytes(text).decode()
        except UnicodeDecodeError:
            self._fail(place + first, "a name is not UTF-8")

    def _block(self, place: int, size: int, at: int) -> memoryview:
        """The block that is next in line; an empty one is nowhere."""
        if not size:
            if place:
                self._fail(at, "nothing should be at place 0")
            return memoryview(b"")
        if not self._follows(self._end_of_blocks, place, BLOCK_ALIGNMENT):
            self._fail(at, f"a block of data at {place} does not follow the one before it")
        if size > len(self._data) - place:
            self._fail(at + 8, f"a block of {size} bytes goes on behind the end")
        self._end_of_blocks = place + size
        return memoryview(self._data)[place : place + size]

    def _follows(self, end: int, place: int, alignment: int) -> bool:
        """Whether a place is the next multiple after an end, with zeros between."""
        return place == aligned(end, alignment) and not any(self._data[end:place])

    def _rows(self, table: str) -> Iterator[tuple[int, tuple[int, ...]]]:
        yield from self._take(table, 0, self._tables[table][1], self._tables[table][0])

    def _take(
        self, table: str, first: int, count: int, at: int
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The rows that are next in line, each with its place."""
        self._claim(table, first, count, at)
        row = TABLES[table]
        start = self._tables[table][0] + first * row.size
        for place in range(start, start + count * row.size, row.size):
            yield place, row.unpack_from(self._data, place)

    def _claim(self, table: str, first: int, count: int, at: int) -> None:
        if first != self._used[table]:
            self._fail(at, f"{first} is not the next of the {table}")
        if count > self._tables[table][1] - first:
            self._fail(at, f"{count} are more {table} than there are")
        self._used[table] += count

    def _code(self, codes: Sequence[_Code], code: int, at: int, what: str) -> _Code:
        if code >= len(codes):
            self._fail(at, f"there is no {what} {code}")
        return codes[code]

    def _fail(self, offset: int, message: str) -> NoReturn:
        said = one_line(message, _MOST_SAID)
        raise PackageError(f"{self._name} is damaged at byte {offset}: {said}", offset)


def _bytes(element: str, shape: Sequence[int]) -> int:
    return prod(shape) * DTYPES[element].itemsize


def _is_spirv(data: bytes) -> bool:
    return len(data) >= _SPIRV_HEADER and data.startswith(_SPIRV_MAGIC)
