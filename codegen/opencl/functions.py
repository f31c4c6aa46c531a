"""Functions that the text of a kernel calls and OpenCL C lacks; a kernel carries those it uses.

In: a function's family and the types it works on. Out: its name and its definition, added once to
a `Library`, after the definitions that it needs.
"""

from collections.abc import Callable

_INTEGER_OF = {"float": "int", "double": "long"}


# The builtin takes a pointer to private memory: where one that names no space is generic, as
# NVIDIA's compiler has it, there is no way to write the call.
_PREFETCH = """#if defined(__has_builtin) && !defined(__NV_CL_C_VERSION)
#if __has_builtin(__builtin_prefetch) && !defined(__opencl_c_generic_address_space)
#define PREFETCH(pointer, write, level) \\
    __builtin_prefetch((const void*)(size_t)(pointer), write, 4 - (level))
#endif
#endif
#ifndef PREFETCH
#define PREFETCH(pointer, write, level)
#endif"""


def shaped(scalar: str, lanes: int) -> str:
    """The C type of that many lanes."""
    return scalar if lanes == 1 else f"{scalar}{lanes}"


def suffixed(name: str, lanes: int) -> str:
    """A function's name for that many lanes."""
    return name if lanes == 1 else f"{name}x{lanes}"


class Library:
    """The functions a kernel uses, in the order of their definitions."""

    def __init__(self) -> None:
        self._definitions: dict[str, str] = {}

    @property
    def text(self) -> str:
        return "".join(f"{definition}\n\n" for definition in self._definitions.values())

    def add(self, name: str, result: str, parameters: str, *body: str) -> str:
        """Define a function unless it is there; its name."""
        if name not in self._definitions:
            lines = "".join(f"    {line}\n" for line in body)
            self._definitions[name] = f"{result} {name}({parameters})\n{{\n{lines}}}"
        return name

    def prefetch(self) -> str:
        """Asks for a cache line through the cache of a level; nothing where the compiler cannot.

        OpenCL C's own `prefetch` is a call to Intel's CPU compiler, which costs more than it saves.
        """
        self._definitions.setdefault("PREFETCH", _PREFETCH)
        return "PREFETCH"

    def round_f16(self, lanes: int, scalar: str = "float") -> str:
        """Rounds to the nearest f16, ties to even; the result is a `float`."""
        name = suffixed("round_f16" if scalar == "float" else "round_f16_double", lanes)
        width = "" if lanes == 1 else str(lanes)
        bits = "ushort bits" if lanes == 1 else f"ushort bits[{lanes}]"
        pointer = "(half*)&bits" if lanes == 1 else "(half*)bits"
        return self.add(
            name,
            shaped("float", lanes),
            f"{shaped(scalar, lanes)} x",
            f"{bits};",
            f"vstore_half{width}_rte(x, 0, {pointer});",
            f"return vload_half{width}(0, {pointer});",
        )

    def round_bf16(self, lanes: int) -> str:
        """Rounds to the nearest bf16, ties to even; a NaN stays a NaN."""
        float_type, bits_type = shaped("float", lanes), shaped("uint", lanes)
        rounded = f"as_{float_type}((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u)"
        choice = f"isnan(x) ? x : {rounded}" if lanes == 1 else f"select({rounded}, x, isnan(x))"
        return self.add(
            suffixed("round_bf16", lanes),
            float_type,
            f"{float_type} x",
            f"{bits_type} bits = as_{bits_type}(x);",
            f"return {choice};",
        )

    def round_bf16_double(self, lanes: int) -> str:
        """Rounds a `double` once: to odd in `float` first, then to the nearest bf16."""
        float_type, double_type = shaped("float", lanes), shaped("double", lanes)
        inexact = f"convert_{double_type}(y) != x"
        if lanes == 1:
            odd = f"as_float(as_int(y) | (({inexact}) & !isnan(x)))"
        else:
            mask = f"convert_{shaped('int', lanes)}(({inexact}) & !isnan(x))"
            odd = f"as_{float_type}(as_{shaped('int', lanes)}(y) | ({mask} & 1))"
        return self.add(
            suffixed("round_bf16_double", lanes),
            float_type,
            f"{double_type} x",
            f"{float_type} y = convert_{float_type}_rtz(x);",
            f"return {self._forward(self.round_bf16(lanes), odd)};",
        )

    def zero_for_nan(self, scalar: str, lanes: int) -> str:
        """Replaces a NaN by 0, which conversions to integers must give and not all devices do."""
        type = shaped(scalar, lanes)
        zero = f"({type})(0)"
        choice = f"isnan(x) ? {zero} : x" if lanes == 1 else f"select(x, {zero}, isnan(x))"
        name = "zero_for_nan" if scalar == "float" else "zero_for_nan_double"
        return self.add(suffixed(name, lanes), type, f"{type} x", f"return {choice};")

    def f16_bits(self, lanes: int) -> str:
        """The bits of an f16 value, as `short`."""
        width, bits = "" if lanes == 1 else str(lanes), shaped("short", lanes)
        return self.add(
            suffixed("f16_bits", lanes),
            bits,
            f"{shaped('float', lanes)} x",
            f"{bits} bits;",
            f"vstore_half{width}_rte(x, 0, (half*)&bits);",
            "return bits;",
        )

    def f16_from_bits(self, lanes: int) -> str:
        """The f16 value of the bits in a `short`."""
        width = "" if lanes == 1 else str(lanes)
        return self.add(
            suffixed("f16_from_bits", lanes),
            shaped("float", lanes),
            f"{shaped('short', lanes)} x",
            f"return vload_half{width}(0, (half*)&x);",
        )

    def extremum(self, name: str, scalar: str, lanes: int, vendor: str = "") -> str:
        """`maximum` or `minimum` of IEEE 754-2019: a NaN wins, and -0 is less than +0.

        NVIDIA has an instruction for it.
        """
        type = shaped(scalar, lanes)
        function = suffixed(f"{name}_{scalar}", lanes)
        if vendor == "nvidia" and scalar == "float":
            step = (
                f'asm("{name[:3]}.NaN.f32 %0, %1, %2;" : "=f"(c{{0}}) : "f"(a{{0}}), "f"(b{{0}}));'
            )
            return self.in_lanes(function, type, "ab", "c", step, lanes)
        bits = shaped(_INTEGER_OF[scalar], lanes)
        compare, join = (">", "&") if name == "maximum" else ("<", "|")
        zeros = f"as_{type}(as_{bits}(a) {join} as_{bits}(b))"
        wins = f"(a {compare} b) | (a != a)"
        if lanes == 1:
            choice = f"a == b ? {zeros} : {wins} ? a : b"
        else:
            choice = f"select(select(b, a, {wins}), {zeros}, a == b)"
        return self.add(function, type, f"{type} a, {type} b", f"return {choice};")

    def power_of_two(self, lanes: int) -> str:
        """NVIDIA's instruction for 2 to a float; what is below the least normal number is 0."""
        step = 'asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y{0}) : "f"(x{0}));'
        name, type = suffixed("power_of_two", lanes), shaped("float", lanes)
        return self.in_lanes(name, type, "x", "y", step, lanes)

    def in_lanes(self, name: str, type: str, given: str, result: str, step: str, lanes: int) -> str:
        """A function whose result has each lane by a step, which names `{0}` the lane of the result
        and of what is given.
        """
        parts = [""] if lanes == 1 else [f".s{digit}" for digit in "0123456789abcdef"[:lanes]]
        body = [f"{type} {result};", *(step.format(part) for part in parts), f"return {result};"]
        return self.add(name, type, ", ".join(f"{type} {operand}" for operand in given), *body)

    def by_lane(self, function: str, scalar: str, lanes: int, arguments: int) -> str:
        """A built-in function of vectors, computed one lane after the other."""
        type, names = shaped(scalar, lanes), "abc"[:arguments]
        calls = (
            f"{function}({', '.join(f'{name}.s{digit}' for name in names)})"
            for digit in "0123456789abcdef"[:lanes]
        )
        return self.add(
            suffixed(f"{function}_of_{scalar}", lanes),
            type,
            ", ".join(f"{type} {name}" for name in names),
            f"return ({type})({', '.join(calls)});",
        )

    def divide(self, name: str, scalar: str, lanes: int, unsigned: bool) -> str:
        """Integer division that cannot trap: by zero it gives 0, and the lowest number by -1 wraps.

        `name` is div, rem, floordiv or ceildiv.
        """
        prefix = "u" if unsigned else ""
        type, bits = shaped(prefix + scalar, lanes), shaped("u" + scalar, lanes)
        zero, one, minus_one = (f"({type})({number})" for number in (0, 1, -1))
        trap = f"b == {zero}" if unsigned else f"(b == {zero}) | (b == {minus_one})"
        divisor = f"({trap} ? {one} : b)" if lanes == 1 else f"select(b, {one}, {trap})"
        wrapped = f"({type})(0 - ({bits})a)" if lanes == 1 else f"as_{type}(-as_{bits}(a))"
        lines = [f"{type} q = a / {divisor};"]
        if not unsigned:
            lines.append(_choose("q", f"b == {minus_one}", wrapped, "q", lanes))
        lines.append(_choose("q", f"b == {zero}", zero, "q", lanes))
        remainder = f"{type} r = ({type})(a - q * b);"
        if name == "rem":
            lines += [remainder, _choose("r", f"b == {zero}", zero, "r", lanes), "return r;"]
        elif name == "div":
            lines.append("return q;")
        else:
            step, sign = ("-", "<") if name == "floordiv" else ("+", ">=")
            off = f"(r != {zero}) & (b != {zero})"
            if not unsigned:
                off += f" & ((r ^ b) {sign} {zero})"
            moved = f"({type})(q {step} {one})"
            lines += [remainder, _choose("q", off, moved, "q", lanes), "return q;"]
        return self.add(
            suffixed(f"{name}_{prefix}{scalar}", lanes), type, f"{type} a, {type} b", *lines
        )

    def integer_power(self, scalar: str, lanes: int) -> str:
        """A power by repeated squaring; a negative exponent gives 1, -1 or 0 (truncation)."""
        type, bits = shaped(scalar, lanes), shaped("u" + scalar, lanes)
        if lanes == 1:
            steps = (
                "if (n < 0) return x == 1 ? 1 : x == -1 ? ((n & 1) ? -1 : 1) : 0;",
                f"{bits} base = ({bits})x, result = 1;",
                "for (; n != 0; n >>= 1, base *= base)",
                "    if (n & 1) result *= base;",
                f"return ({type})result;",
            )
        else:
            scalar_name = self.integer_power(scalar, 1)
            digits = "0123456789abcdef"[:lanes]
            parts = ", ".join(f"{scalar_name}(x.s{digit}, n.s{digit})" for digit in digits)
            steps = (f"return ({type})({parts});",)
        return self.add(
            suffixed(f"integer_power_{scalar}", lanes), type, f"{type} x, {type} n", *steps
        )

    def reduce(
        self, name: str, scalar: str, lanes: int, combine: Callable[[str, str, int], str]
    ) -> str:
        """Halves a vector until one lane is left. `combine` writes one step on so many lanes."""
        lines: list[str] = []
        current, width = "x", lanes
        while width > 2:
            width //= 2
            step = combine(f"{current}.lo", f"{current}.hi", width)
            lines.append(f"{shaped(scalar, width)} x{width} = {step};")
            current = f"x{width}"
        lines.append(f"return {combine(f'{current}.lo', f'{current}.hi', 1)};")
        return self.add(
            suffixed(f"reduce_{name}_{scalar}", lanes),
            scalar,
            f"{shaped(scalar, lanes)} x",
            *lines,
        )

    @staticmethod
    def _forward(function: str, argument: str) -> str:
        return f"{function}({argument})"


def _choose(target: str, test: str, yes: str, no: str, lanes: int) -> str:
    if lanes == 1:
        return f"{target} = {test} ? {yes} : {no};"
    return f"{target} = select({no}, {yes}, {test});"
