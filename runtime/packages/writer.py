"""Writes a package: equal packages have equal bytes.

In: a `Package`. Out: the bytes of a file, laid out as `format.py` says.
"""

import zlib
from collections.abc import Sequence

from mgn.codegen.launch_plan import BufferKind, BufferPlan, CopyStep
from mgn.codegen.signature import KernelSignature
from mgn.runtime.errors import RuntimeFault
from mgn.runtime.host_arrays import as_bytes
from mgn.runtime.memory import buffer_bytes
from mgn.runtime.packages.format import (
    ACCESSES,
    BLOCK_ALIGNMENT,
    CHECKED_FROM,
    ELEMENTS,
    HEADER,
    HEADER_BYTES,
    KINDS,
    MAGIC,
    MOST_DIMENSIONS,
    START,
    STEPS,
    TABLE_ALIGNMENT,
    TABLES,
    VERSION,
    Package,
    PackagedKernel,
    aligned,
)


def package_bytes(package: Package) -> bytes:
    """The file that holds a package. RuntimeFault where something has no place in the format."""
    return _Writer().file(package)


class _Writer:
    """Blocks go to the file at once; rows are kept until all blocks are there."""

    def __init__(self) -> None:
        self._data = bytearray(HEADER_BYTES)
        self._strings = bytearray()
        self._rows: dict[str, list[Sequence[int]]] = {name: [] for name in TABLES}

    def file(self, package: Package) -> bytes:
        """The whole file."""
        plan = package.plan
        names = (*self._name(plan.name), *self._name(package.device))
        for name, kernel in package.kernels.items():
            self._kernel(name, kernel)
        for buffer in plan.buffers:
            self._buffer(buffer, package)
        numbers = {name: number for number, name in enumerate(package.kernels)}
        for step in plan.prepare:
            self._step("prepare", numbers[step.kernel], step.arguments)
        for step in plan.steps:
            if isinstance(step, CopyStep):
                self._step("copy", 0, (step.source, step.target))
            else:
                self._step("launch", numbers[step.kernel], step.arguments)
        for output in plan.outputs:
            row = (*self._name(output.name), output.buffer, ELEMENTS.index(output.element))
            self._rows["outputs"].append((*row, *self._shape(output.shape)))
        self._rows["strings"] = [(byte,) for byte in self._strings]
        tables = self._write_tables()
        sizes = (plan.arena, plan.tensor_bytes, plan.lower_bound)
        HEADER.pack_into(self._data, START.size, len(self._data), *names, *sizes, *tables)
        checksum = zlib.crc32(memoryview(self._data)[CHECKED_FROM:])
        START.pack_into(self._data, 0, MAGIC, VERSION, checksum)
        return bytes(self._data)

    def _write_tables(self) -> list[int]:
        """Puts the tables behind the blocks. The place and number of rows of each."""
        places: list[int] = []
        for table, row in TABLES.items():
            self._align(TABLE_ALIGNMENT)
            places += (len(self._data), len(self._rows[table]))
            for fields in self._rows[table]:
                self._data += row.pack(*fields)
        return places

    def _kernel(self, name: str, kernel: PackagedKernel) -> None:
        launch = kernel.launch
        forms = (kernel.spirv, kernel.source)
        names = (self._name(item) for item in (name, *map(_entry_point, forms)))
        spirv = b"" if kernel.spirv is None else kernel.spirv.il or b""
        source = b"" if kernel.source is None else kernel.source.source.encode()
        first = len(self._rows["arguments"])
        for item in launch.arguments:
            codes = (ACCESSES.index(item.access), ELEMENTS.index(item.element))
            self._rows["arguments"].append((*codes, item.count))
        row = [field for pair in names for field in pair]
        row += (*launch.global_size, *launch.local_size)
        row += (*self._block(spirv), *self._block(source))
        row += (launch.local_memory, first, len(launch.arguments))
        self._rows["kernels"].append(row)

    def _buffer(self, buffer: BufferPlan, package: Package) -> None:
        name, size = self._name(buffer.name), buffer_bytes(buffer)
        codes = (KINDS.index(buffer.kind), ELEMENTS.index(buffer.element))
        place = buffer.offset
        value = buffer.value
        if buffer.kind is BufferKind.PARAM:
            value = package.parameters.get(buffer.name)
        if value is not None:
            content = as_bytes(value).data
            if len(content) != size:
                raise RuntimeFault(f"'{buffer.name}' has {len(content)} bytes, not {size}")
            place, _ = self._block(content)
        shape = self._shape(buffer.shape)
        self._rows["buffers"].append((*codes, *name, *shape, place, size))

    def _step(self, kind: str, kernel: int, operands: Sequence[int]) -> None:
        first = len(self._rows["operands"])
        self._rows["operands"] += ((number,) for number in operands)
        self._rows["steps"].append((STEPS.index(kind), kernel, first, len(operands)))

    def _name(self, text: str) -> tuple[int, int]:
        data = text.encode()
        if b"\0" in data:
            raise RuntimeFault(f"the name {text!r} has a zero byte, which a package cannot hold")
        start = len(self._strings)
        self._strings += data + b"\0"
        return start, len(data)

    def _shape(self, shape: Sequence[int]) -> tuple[int, int]:
        if len(shape) > MOST_DIMENSIONS:
            raise RuntimeFault(f"a package holds at most {MOST_DIMENSIONS} dimensions")
        first = len(self._rows["dimensions"])
        self._rows["dimensions"] += ((size,) for size in shape)
        return first, len(shape)

    def _block(self, content: bytes | memoryview) -> tuple[int, int]:
        """Writes a block. Its place and size; nothing is at place 0."""
        if not len(content):
            return 0, 0
        self._align(BLOCK_ALIGNMENT)
        place = len(self._data)
        self._data += content
        return place, len(content)

    def _align(self, alignment: int) -> None:
        self._data += bytes(aligned(len(self._data), alignment) - len(self._data))


def _entry_point(form: KernelSignature | None) -> str:
    return "" if form is None else form.name
