"""Makes a SPIR-V module: sections, types and constants once each, functions with their blocks.

In: calls that name instructions of the table. Out: `finish()`, a `spirv.module` that declares the
capabilities of all that was used.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.ir import SSAValue

from mgn.dialects.spirv import ENUMS, OPENCL_STD, InstructionOp, ModuleOp, instruction
from mgn.dialects.spirv.capabilities import needed_capabilities
from mgn.dialects.spirv.opencl_std import SET_NAME
from mgn.dialects.spirv.shapes import Shape

_NO_WRAP_EXTENSION = "SPV_KHR_no_integer_wrap_decoration"
_FLOAT_FORMATS = {32: "<f", 64: "<d"}
VOID = Shape("void")


@lru_cache(maxsize=256)
def member(kind: str, name: str) -> int:
    """The number of an enumeration's member."""
    return ENUMS[kind].by_name[name].value


@dataclass
class _FunctionBody:
    """A function that grows: its variables go to the head of its first block."""

    head: list[InstructionOp]
    variables: list[InstructionOp] = field(default_factory=list["InstructionOp"])
    lines: list[InstructionOp] = field(default_factory=list["InstructionOp"])
    label: SSAValue | None = None

    @property
    def instructions(self) -> list[InstructionOp]:
        first_label, *rest = self.lines
        return [*self.head, first_label, *self.variables, *rest, instruction("OpFunctionEnd")]


class ModuleBuilder:
    """One module in the making."""

    def __init__(self) -> None:
        self._extensions: dict[str, InstructionOp] = {}
        self._import: InstructionOp | None = None
        self._entry_points: list[InstructionOp] = []
        self._modes: list[InstructionOp] = []
        self._names: list[InstructionOp] = []
        self._decorations: list[InstructionOp] = []
        self._globals: list[InstructionOp] = []
        self._declared: dict[object, SSAValue] = {}
        self._functions: list[list[InstructionOp]] = []
        self._stack: list[_FunctionBody] = []

    def finish(self) -> ModuleOp:
        """The module. The builder is of no use afterwards."""
        imports = [self._import] if self._import is not None else []
        model = [member("AddressingModel", "Physical64"), member("MemoryModel", "OpenCL")]
        rest = [
            *self._extensions.values(),
            *imports,
            instruction("OpMemoryModel", (), model),
            *self._entry_points,
            *self._modes,
            *self._names,
            *self._decorations,
            *self._globals,
            *(item for function in self._functions for item in function),
        ]
        return ModuleOp([*_capabilities(rest), *rest])

    # types

    def type(self, shape: Shape) -> SSAValue:
        """The type of a shape of numbers or bools, or void."""
        found = self._declared.get(shape)
        if found is not None:
            return found
        if shape.lanes > 1:
            scalar = Shape(shape.kind, shape.bits)
            hint = f"v{shape.lanes}{_hint(scalar)}"
            return self._declare(shape, "OpTypeVector", [self.type(scalar)], [shape.lanes], hint)
        if shape.kind == "int":
            return self._declare(shape, "OpTypeInt", [], [shape.bits, 0], _hint(shape))
        if shape.kind == "float":
            return self._declare(shape, "OpTypeFloat", [], [shape.bits], _hint(shape))
        name = "OpTypeBool" if shape.kind == "bool" else "OpTypeVoid"
        return self._declare(shape, name, [], [], shape.kind)

    def pointer(self, storage: str, pointee: SSAValue) -> SSAValue:
        """The type of a pointer into a storage class."""
        hint = f"ptr_{storage}_{pointee.name_hint}"
        literals = [member("StorageClass", storage)]
        return self._declare(("*", storage, pointee), "OpTypePointer", [pointee], literals, hint)

    def array(self, element: SSAValue, count: int) -> SSAValue:
        """The type of an array."""
        length = self.constant(Shape("int", 32), count)
        hint = f"arr_{count}_{element.name_hint}"
        return self._declare(("[]", element, count), "OpTypeArray", [element, length], [], hint)

    def event(self) -> SSAValue:
        """The type of the completion of a copy."""
        return self._declare("event", "OpTypeEvent", [], [], "event")

    # constants and variables of the module

    def constant(self, shape: Shape, number: float | int) -> SSAValue:
        """A number of a shape, in every lane."""
        return self._constant_bits(shape, number_bits(shape, number))

    def constants(self, shape: Shape, numbers: Sequence[float | int]) -> SSAValue:
        """A vector of numbers."""
        scalar = Shape(shape.kind, shape.bits)
        parts = [self.constant(scalar, number) for number in numbers]
        return self._declare(
            ("composite", shape, *parts), "OpConstantComposite", [self.type(shape), *parts]
        )

    def null(self, type: SSAValue) -> SSAValue:
        """Zero in any type."""
        return self._declare(("null", type), "OpConstantNull", [type])

    def built_in(self, name: str, shape: Shape) -> SSAValue:
        """The variable of a figure of the launch."""
        key = ("built-in", name)
        if key not in self._declared:
            variable = self.variable("Input", self.type(shape), name)
            self.decorate(variable, "BuiltIn", member("BuiltIn", name))
            self.decorate(variable, "Constant")
            self._declared[key] = variable
        return self._declared[key]

    def variable(self, storage: str, type: SSAValue, hint: str) -> SSAValue:
        """A variable: of the function in the making, or of the module."""
        operation = instruction(
            "OpVariable", [self.pointer(storage, type)], [member("StorageClass", storage)], hint
        )
        (self._stack[-1].variables if storage == "Function" else self._globals).append(operation)
        return operation.result

    def _constant_bits(self, shape: Shape, bits: int) -> SSAValue:
        key = ("constant", shape, bits)
        found = self._declared.get(key)
        if found is not None:
            return found
        type = self.type(shape)
        if shape.lanes > 1:
            part = self._constant_bits(Shape(shape.kind, shape.bits), bits)
            return self._declare(key, "OpConstantComposite", [type, *[part] * shape.lanes])
        if shape.kind == "bool":
            return self._declare(key, "OpConstantTrue" if bits else "OpConstantFalse", [type])
        return self._declare(key, "OpConstant", [type], [bits])

    def _declare(
        self,
        key: object,
        name: str,
        operands: Sequence[SSAValue],
        literals: Sequence[int | str] = (),
        hint: str | None = None,
    ) -> SSAValue:
        found = self._declared.get(key)
        if found is None:
            operation = instruction(name, operands, literals, hint)
            self._globals.append(operation)
            found = self._declared[key] = operation.result
        return found

    # what lies around functions

    def extension(self, name: str) -> None:
        """Say that an extension is used."""
        if name not in self._extensions:
            self._extensions[name] = instruction("OpExtension", (), [name])

    def decorate(self, value: SSAValue, name: str, *literals: int | str) -> None:
        """Decorate an id."""
        decoration = [member("Decoration", name), *literals]
        self._decorations.append(instruction("OpDecorate", [value], decoration))

    def no_signed_wrap(self, value: SSAValue) -> None:
        """Promise that an integer result is exact as a signed number."""
        self.extension(_NO_WRAP_EXTENSION)
        self.decorate(value, "NoSignedWrap")

    def name(self, value: SSAValue, name: str) -> None:
        """Keep a name in the binary."""
        self._names.append(instruction("OpName", [value], [name]))

    def entry_point(self, function: SSAValue, name: str, local_size: Sequence[int]) -> None:
        """Let a function be a kernel. No product and sum are made one operation in it."""
        interface = [v for key, v in self._declared.items() if _is_built_in(key)]
        kernel = [member("ExecutionModel", "Kernel"), name]
        self._entry_points.append(instruction("OpEntryPoint", [function, *interface], kernel))
        for mode, sizes in (("LocalSize", local_size), ("ContractionOff", ())):
            literals = [member("ExecutionMode", mode), *sizes]
            self._modes.append(instruction("OpExecutionMode", [function], literals))

    # functions

    @contextmanager
    def function(
        self, hint: str, result: SSAValue, parameters: Sequence[SSAValue], inline: bool
    ) -> Iterator[tuple[SSAValue, list[SSAValue]]]:
        """A function and its parameters; what is emitted inside is its body."""
        key = ("function", result, *parameters)
        type = self._declare(key, "OpTypeFunction", [result, *parameters])
        control = member("FunctionControl", "Inline" if inline else "None")
        head = instruction("OpFunction", [result, type], [control], hint)
        arguments = [instruction("OpFunctionParameter", [item]) for item in parameters]
        self._stack.append(_FunctionBody([head, *arguments]))
        self.place(self.label())
        yield head.result, [argument.result for argument in arguments]
        self._functions.append(self._stack.pop().instructions)

    def emit(
        self,
        name: str,
        type: Shape | SSAValue | None,
        *operands: SSAValue,
        literals: Sequence[int | str] = (),
        hint: str | None = None,
    ) -> SSAValue:
        """An instruction of the function in the making, and its result."""
        operation = self.emit_operation(name, type, *operands, literals=literals)
        if hint is not None:
            operation.results[0].name_hint = hint
        return operation.results[0]

    def emit_operation(
        self,
        name: str,
        type: Shape | SSAValue | None = None,
        *operands: SSAValue,
        literals: Sequence[int | str] = (),
    ) -> InstructionOp:
        """An instruction of the function in the making, with a result or without."""
        if type is not None:
            first = self.type(type) if isinstance(type, Shape) else type
            operands = (first, *operands)
        operation = instruction(name, operands, literals)
        self._stack[-1].lines.append(operation)
        return operation

    def extended(self, name: str, shape: Shape, *operands: SSAValue, literal: int = -1) -> SSAValue:
        """A function of OpenCL.std; `literal` is its last operand where that is no id."""
        if self._import is None:
            self._import = instruction("OpExtInstImport", (), [SET_NAME], "opencl")
        literals = [OPENCL_STD[name].number, *([literal] if literal >= 0 else [])]
        return self.emit("OpExtInst", shape, self._import.result, *operands, literals=literals)

    # control flow

    @property
    def current_label(self) -> SSAValue:
        """The block that is being written."""
        label = self._stack[-1].label
        assert label is not None
        return label

    def label(self) -> InstructionOp:
        """A block that `place` begins later."""
        return instruction("OpLabel")

    def place(self, label: InstructionOp) -> None:
        """Begin a block."""
        self._stack[-1].lines.append(label)
        self._stack[-1].label = label.result

    def branch(self, label: InstructionOp) -> None:
        """End the block by going to another."""
        self.emit_operation("OpBranch", None, label.result)

    def branch_on(self, condition: SSAValue, yes: InstructionOp, no: InstructionOp) -> None:
        """End the block by going to one of two."""
        self.emit_operation("OpBranchConditional", None, condition, yes.result, no.result)

    def phi(self, type: SSAValue, *pairs: SSAValue) -> InstructionOp:
        """A value that depends on the block before; its pairs may come later."""
        return self.emit_operation("OpPhi", type, *pairs)


def number_bits(shape: Shape, number: float | int) -> int:
    """The bits of a number in one lane of a shape; a float is rounded to it."""
    if shape.kind == "bool":
        return int(bool(number))
    if shape.kind == "int":
        return int(number) % (1 << shape.bits)
    code = _FLOAT_FORMATS[shape.bits]
    try:
        data = struct.pack(code, number)
    except OverflowError:
        data = struct.pack(code, float("inf") if number > 0 else float("-inf"))
    return int.from_bytes(data, "little")


def _hint(shape: Shape) -> str:
    if shape.kind == "float":
        return "double" if shape.bits == 64 else "half" if shape.bits == 16 else "float"
    return {8: "uchar", 16: "ushort", 32: "uint", 64: "ulong"}.get(shape.bits, shape.kind)


def _is_built_in(key: object) -> bool:
    return isinstance(key, tuple) and key[0] == "built-in"


def _capabilities(instructions: Sequence[InstructionOp]) -> list[InstructionOp]:
    """Declarations of what the instructions need, in the order of their numbers."""
    declared: set[str] = set()
    needed: set[str] = set()
    for operation in instructions:
        for alternatives in needed_capabilities(operation):
            if not declared.intersection(alternatives):
                needed.add(alternatives[0])
                declared.update(alternatives[:1])
    numbers = sorted(member("Capability", name) for name in needed)
    return [instruction("OpCapability", (), [number]) for number in numbers]
