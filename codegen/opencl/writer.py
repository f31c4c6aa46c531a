"""The text of one kernel's body as it grows: names, lines, and which values become expressions.

In: operations in order, each turned into an `Expression` or into lines by its row. Out: lines of C.
A value that is used once, in its own block, by text that stays short, is written where it is used;
every other value gets a name. Loads are always named, so that no store can come before them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue

from mgn.codegen.opencl.c_types import CTypes
from mgn.codegen.opencl.expression import Expression
from mgn.codegen.opencl.functions import Library
from mgn.codegen.opencl.stage_places import StagePlaces
from mgn.diagnostics import MgnError
from mgn.dialects.kernel.device import Device
from mgn.dialects.kernel.translation import Translation

INLINE_LENGTH = 56
"""The longest text of a value that is written where it is used."""

_WORDS = """
abs acos acosh all any asin asinh atan atan2 atanh auto barrier bitselect bool break case cbrt
ceil char clamp clz const constant continue copysign cos cosh cross default degrees distance do
dot double else enum erf event_t exp exp2 expm1 extern fabs false float floor fma fmax fmin for
frexp gamma global goto hadd half half_exp HUGE_VAL hypot if image INFINITY inline int INT_MIN
islessgreater isnan isordered isunordered j0 j1 kernel ldexp length lgamma local log log10 log1p
log2 long LONG_MIN M_PI mad mad24 max min mix mod modf mul24 NAN native_exp normalize NULL pipe
popcount pow pown prefetch printf private ptrdiff_t radians read_only read_write register rem
restrict return rhadd rint rotate round rsqrt sampler select short shuffle sign signed sin sinh
size_t sizeof sqrt static step struct switch tan tanh tgamma true trunc typedef uchar uint ulong
union unsigned ushort vload2 void volatile while write_only y0 y1
"""

RESERVED = frozenset(_WORDS.split())
"""Words that a variable cannot be called: keywords and built-in functions of OpenCL C."""


class CodegenError(MgnError):
    """An operation that has no text in the target language; it says which and where."""


Row = Callable[["Writer", Any], Expression | None]
"""An operation's text: the expression of its only result, or None after writing lines."""


class Writer(Translation[Expression]):
    """Writes one kernel. An expression that was `set` is written in place, whatever it costs.

    `sub_group` is how many work-items its sub-groups must have, where that matters. What OpenCL C
    cannot say for NVIDIA is noted: the `architecture`, and `enlarged` local memory, by name the
    bytes that are declared and those that are needed. A kernel that is a `stage` of a resident
    launch has its places from there.
    """

    ERROR = CodegenError
    MISSING = "has no OpenCL C text"

    def __init__(self, rows: Mapping[type[Operation], Row], types: CTypes, device: Device):
        super().__init__(rows)
        self.types = types
        self.vendor, self.matrix_unit = device.vendor, device.matrix_unit
        self.library = Library()
        self.extensions: set[str] = set()
        self.local_memory = 0
        self.sub_group = 0
        self.architecture = ""
        self.declared_at_most = 0
        self.enlarged: dict[str, tuple[int, int]] = {}
        self.stage: StagePlaces | None = None
        self._lines: list[str] = []
        self._in_place: dict[SSAValue, Expression] = {}
        self.depth = 1
        self._named: dict[str, int] = {}

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self._lines)

    def line(self, text: str) -> None:
        """One line at the present depth."""
        self._lines.append("    " * self.depth + text if text else "")

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """Lines inside a brace that the head opens; the caller writes what closes it. A value that
        got a name inside has none behind it.
        """
        self.line(f"{head} {{")
        self.depth += 1
        outside, self._in_place = self._in_place, {}
        yield
        self._values.update(self._in_place)
        self._in_place = outside
        self.depth -= 1

    def pointer(self, value: SSAValue) -> str:
        """The pointer to a buffer."""
        return self._values[value].text

    def name_of(self, value: SSAValue) -> Expression:
        """The value's name; a value that was to be written in place gets one now."""
        expression = self._values[value]
        if expression.is_name:
            return expression
        self._in_place[value] = expression
        return self.declare(value, expression)

    def type(self, value: SSAValue | Attribute) -> str:
        """The C type of a value."""
        return self.types.value(value.type if isinstance(value, SSAValue) else value)

    def declare(self, value: SSAValue, initial: Expression | None = None) -> Expression:
        """A variable for a value, with its first content."""
        name = self.fresh(value.name_hint or _kind(value))
        content = "" if initial is None else f" = {initial}"
        self.line(f"{self.type(value)} {name}{content};")
        self._values[value] = Expression(name)
        return self._values[value]

    def fresh(self, hint: str) -> str:
        """A C identifier like the hint that nothing else in the kernel has."""
        name = re.sub(r"\W", "_", hint)
        if not re.match(r"[A-Za-z]", name):
            name = f"v{name}"
        if name in RESERVED or name.startswith(("as_", "convert_", "vload", "vstore", "get_")):
            name += "_"
        count = self._named.get(name, 0)
        self._named[name] = count + 1
        return name if count == 0 else self.fresh(f"{name}_{count}")

    def assign_together(self, targets: list[Expression], sources: list[SSAValue]) -> None:
        """Assign all sources to their variables as if at once."""
        pairs = [
            (target, self.value(source))
            for target, source in zip(targets, sources, strict=True)
            if target != self.value(source)
        ]
        written: set[str] = set()
        clash = False
        for target, source in pairs:
            clash = clash or bool(source.names() & written)
            written.add(target.text)
        if clash:
            held = {source: source for _, source in pairs}
            for target, source in zip(targets, sources, strict=True):
                expression = self.value(source)
                if expression in held and held[expression] is expression:
                    name = self.fresh(f"next_{target}")
                    self.line(f"{self.type(source)} {name} = {expression};")
                    held[expression] = Expression(name)
            pairs = [(target, held[source]) for target, source in pairs]
        for target, source in pairs:
            self.line(f"{target} = {source};")

    def bind(self, value: SSAValue, result: Expression) -> None:
        """Names the value, unless its expression is as good where it is used."""
        uses = list(value.uses)
        if result.is_name or (
            len(uses) == 1
            and uses[0].operation.parent is value.owner.parent  # a loop would compute it again
            and len(result.text) <= INLINE_LENGTH
        ):
            self._values[value] = result
        elif uses:
            self.declare(value, result)


def _kind(value: SSAValue) -> str:
    return "buffer" if isinstance(value.type, MemRefType) else "v"
