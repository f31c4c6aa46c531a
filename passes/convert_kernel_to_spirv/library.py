"""Functions that a kernel calls and OpenCL.std lacks; a module carries those it uses, once each.

In: values of a `Shape`. Out: the result of a call; the function is defined at the first one.
"""

from collections.abc import Callable

from xdsl.ir import SSAValue

from mgn.dialects.spirv.shapes import Shape
from mgn.passes.convert_kernel_to_spirv.module_builder import ModuleBuilder, member

SIZE = Shape("int", 64)
"""The type of a size and of an offset from a pointer."""


class Library:
    """The functions of one module."""

    def __init__(self, builder: ModuleBuilder) -> None:
        self._builder = builder
        self._functions: dict[str, SSAValue] = {}

    def round_f16(self, value: SSAValue, source: Shape) -> SSAValue:
        """Rounds to the nearest f16, ties to even; the result has 32 bits."""

        def body(x: SSAValue) -> SSAValue:
            return self._load_half(self._store_half(x, source), source.lanes)

        return self._call(f"round_f16_{source.bits}", source.as_kind("float", 32), [source], body)(
            value
        )

    def f16_bits(self, value: SSAValue, lanes: int) -> SSAValue:
        """The bits of an f16 value, as 16-bit integers."""
        source, result = Shape("float", 32, lanes), Shape("int", 16, lanes)

        def body(x: SSAValue) -> SSAValue:
            memory = self._store_half(x, source)
            if lanes == 1:
                return self._builder.emit("OpLoad", result, memory)
            first = self._first(memory)
            zero = self._builder.constant(SIZE, 0)
            return self._builder.extended("vloadn", result, zero, first, literal=lanes)

        return self._call("f16_bits", result, [source], body)(value)

    def f16_from_bits(self, value: SSAValue, lanes: int) -> SSAValue:
        """The f16 value of 16-bit integers."""
        source = Shape("int", 16, lanes)

        def body(x: SSAValue) -> SSAValue:
            memory = self._half_memory(lanes)
            if lanes == 1:
                self._builder.emit_operation("OpStore", None, memory, x)
            else:
                zero = self._builder.constant(SIZE, 0)
                void = Shape("void")
                self._builder.extended("vstoren", void, x, zero, self._first(memory))
            return self._load_half(memory, lanes)

        return self._call("f16_from_bits", Shape("float", 32, lanes), [source], body)(value)

    def round_bf16(self, value: SSAValue, shape: Shape) -> SSAValue:
        """Rounds 32 bits to the nearest bf16, ties to even; a NaN stays a NaN."""
        b, integer = self._builder, shape.as_kind("int", 32)

        def body(x: SSAValue) -> SSAValue:
            bits = b.emit("OpBitcast", integer, x)
            sixteen, one = b.constant(integer, 16), b.constant(integer, 1)
            high = b.emit("OpShiftRightLogical", integer, bits, sixteen)
            odd = b.emit("OpBitwiseAnd", integer, high, one)
            moved = b.emit("OpIAdd", integer, bits, b.constant(integer, 0x7FFF))
            moved = b.emit("OpIAdd", integer, moved, odd)
            moved = b.emit("OpBitwiseAnd", integer, moved, b.constant(integer, 0xFFFF0000))
            rounded = b.emit("OpBitcast", shape, moved)
            nan = b.emit("OpIsNan", shape.as_kind("bool", 1), x)
            return b.emit("OpSelect", shape, nan, x, rounded)

        return self._call("round_bf16", shape, [shape], body)(value)

    def round_bf16_double(self, value: SSAValue, lanes: int) -> SSAValue:
        """Rounds 64 bits once: to odd in 32 bits first, then to the nearest bf16."""
        b = self._builder
        wide, single = Shape("float", 64, lanes), Shape("float", 32, lanes)
        integer, truth = Shape("int", 32, lanes), Shape("bool", 1, lanes)

        def body(x: SSAValue) -> SSAValue:
            y = b.emit("OpFConvert", single, x)
            b.decorate(y, "FPRoundingMode", member("FPRoundingMode", "RTZ"))
            inexact = b.emit("OpFOrdNotEqual", truth, b.emit("OpFConvert", wide, y), x)
            bit = b.emit(
                "OpSelect", integer, inexact, b.constant(integer, 1), b.constant(integer, 0)
            )
            odd = b.emit("OpBitwiseOr", integer, b.emit("OpBitcast", integer, y), bit)
            return self.round_bf16(b.emit("OpBitcast", single, odd), single)

        return self._call("round_bf16_double", single, [wide], body)(value)

    def integer_power(self, x: SSAValue, n: SSAValue, shape: Shape) -> SSAValue:
        """A power by repeated squaring; a negative exponent gives 1, -1 or 0 (truncation)."""
        b = self._builder
        if shape.lanes > 1:
            scalar = shape.scalar
            parts = [
                self.integer_power(
                    b.emit("OpCompositeExtract", scalar, x, literals=[lane]),
                    b.emit("OpCompositeExtract", scalar, n, literals=[lane]),
                    scalar,
                )
                for lane in range(shape.lanes)
            ]
            return b.emit("OpCompositeConstruct", shape, *parts)
        return self._call("integer_power", shape, [shape, shape], self._power_body(shape))(x, n)

    def _power_body(self, shape: Shape) -> Callable[..., SSAValue]:
        b, truth = self._builder, Shape("bool", 1)
        zero, one, minus_one = (b.constant(shape, number) for number in (0, 1, -1))

        def body(x: SSAValue, n: SSAValue) -> SSAValue:
            entry = b.current_label
            header, step, done = b.label(), b.label(), b.label()
            b.branch(header)
            b.place(header)
            type = b.type(shape)
            count, base, product = b.phi(type), b.phi(type), b.phi(type)
            more = b.emit("OpINotEqual", truth, count.result, zero)
            b.emit_operation("OpLoopMerge", None, done.result, step.result, literals=[0])
            b.branch_on(more, step, done)
            b.place(step)
            bit = b.emit("OpBitwiseAnd", shape, count.result, one)
            odd = b.emit("OpINotEqual", truth, bit, zero)
            times = b.emit("OpIMul", shape, product.result, base.result)
            next_product = b.emit("OpSelect", shape, odd, times, product.result)
            next_base = b.emit("OpIMul", shape, base.result, base.result)
            next_count = b.emit("OpShiftRightLogical", shape, count.result, one)
            b.branch(header)
            for phi, first, following in (
                (count, n, next_count),
                (base, x, next_base),
                (product, one, next_product),
            ):
                phi.operands = [type, first, entry, following, step.result]
            b.place(done)
            is_odd = b.emit("OpINotEqual", truth, b.emit("OpBitwiseAnd", shape, n, one), zero)
            sign = b.emit("OpSelect", shape, is_odd, minus_one, one)
            is_minus_one = b.emit("OpIEqual", truth, x, minus_one)
            negative = b.emit("OpSelect", shape, is_minus_one, sign, zero)
            is_one = b.emit("OpIEqual", truth, x, one)
            negative = b.emit("OpSelect", shape, is_one, one, negative)
            below = b.emit("OpSLessThan", truth, n, zero)
            return b.emit("OpSelect", shape, below, negative, product.result)

        return body

    def half_pointer(self, pointer: SSAValue, storage: str) -> SSAValue:
        """A pointer to 16 bits as a pointer to a half."""
        half = self._builder.pointer(storage, self._builder.type(Shape("float", 16)))
        return self._builder.emit("OpBitcast", half, pointer)

    def _half_memory(self, lanes: int) -> SSAValue:
        element = self._builder.type(Shape("int", 16))
        type = element if lanes == 1 else self._builder.array(element, lanes)
        return self._builder.variable("Function", type, "bits")

    def _first(self, memory: SSAValue) -> SSAValue:
        type = self._builder.pointer("Function", self._builder.type(Shape("int", 16)))
        return self._builder.emit("OpBitcast", type, memory)

    def _store_half(self, value: SSAValue, shape: Shape) -> SSAValue:
        """Memory that holds the halves of a value."""
        memory = self._half_memory(shape.lanes)
        name = "vstore_half_r" if shape.lanes == 1 else "vstore_halfn_r"
        self._builder.extended(
            name,
            Shape("void"),
            value,
            self._builder.constant(SIZE, 0),
            self.half_pointer(memory, "Function"),
            literal=member("FPRoundingMode", "RTE"),
        )
        return memory

    def _load_half(self, memory: SSAValue, lanes: int) -> SSAValue:
        name, literal = ("vload_half", -1) if lanes == 1 else ("vload_halfn", lanes)
        return self._builder.extended(
            name,
            Shape("float", 32, lanes),
            self._builder.constant(SIZE, 0),
            self.half_pointer(memory, "Function"),
            literal=literal,
        )

    def _call(
        self, name: str, result: Shape, parameters: list[Shape], body: Callable[..., SSAValue]
    ) -> Callable[..., SSAValue]:
        """A call of a function of that name for these shapes."""
        b = self._builder
        lanes = f"x{result.lanes}" if result.lanes > 1 else ""
        full_name = f"{name}_{result.bits}{lanes}"
        if full_name not in self._functions:
            types = [b.type(shape) for shape in parameters]
            with b.function(full_name, b.type(result), types, inline=True) as (function, values):
                b.emit_operation("OpReturnValue", None, body(*values))
            b.name(function, full_name)
            self._functions[full_name] = function
        function = self._functions[full_name]
        return lambda *arguments: b.emit("OpFunctionCall", result, function, *arguments)
