"""What is known of operations, initialisers and words of the language: signatures and a few lines.

In: a name. Out: `Help`, or None for a name that the language does not have.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from mgn.dialects.mgn.attributes import REQUIRED
from mgn.dialects.mgn.initialiser import INITIALISERS
from mgn.dialects.mgn.operation import OPERATIONS, AttributeSpec, OperandSpec
from mgn.dialects.types import ELEMENT_TYPES, ElementType, Family
from mgn.frontend.lowering.calls import COMPILE_TIME, DERIVATIVES

KEYWORDS = {
    "const": "`const A = 1, B = 2 * A`: values that are known when compiling.",
    "import": '`import "other.mgn"`: what another file declares.',
    "fn": "`fn f(x, n: int = 1) { … }`: a function, which is inlined at each call.",
    "graph": "`graph g[B = 1](x: f32[B, 4]) { … return y }`: what is compiled and run.",
    "param": '`param w: f32[4] as "layer.w" = zeros()`: a tensor that is trained.',
    "state": "`state k: f32[4]`: a tensor that lives on the device from run to run.",
    "scope": '`scope "layers.{i}" { … }`: begins the external names of what is made inside.',
    "for": "`for i in 0..N { … }`: a loop, which is unrolled.",
    "in": "`for i in 0..N { … }`: a loop, which is unrolled.",
    "if": "`if n == 1 { … } else { … }`: a choice when compiling.",
    "else": "`if n == 1 { … } else { … }`: a choice when compiling.",
    "return": "`return loss, y = x + 1`: the results, which have names in a graph.",
    "as": '`param w: f32[4] as "layer.w"`: the name in files of weights.',
    "and": "Of values that are known when compiling; tensors take `logical_and(a, b)`.",
    "or": "Of values that are known when compiling; tensors take `logical_or(a, b)`.",
    "not": "Of values that are known when compiling; tensors take `logical_not(x)`.",
    "true": "A compile-time bool.",
    "false": "A compile-time bool.",
    "none": "No value, for an argument that may be left out.",
    "inf": "Infinity.",
    "nan": "Not a number.",
}
"""The words of the language, with an example of each."""

MEMBERS = {
    "T": "`x.T`: the tensor with its last two axes swapped.",
    "shape": "`x.shape`: the sizes of a tensor, a list that is known when compiling.",
}
"""What stands behind a dot."""

_FAMILIES = {
    Family.FLOAT: "a float",
    Family.SIGNED: "a signed integer",
    Family.UNSIGNED: "an unsigned integer",
    Family.BOOL: "a bool",
    Family.BLOCK: "a block format of a parameter",
}


@dataclass(frozen=True)
class Argument:
    """An argument of a call: `axis = -1`, and what it may be."""

    name: str
    text: str
    kind: str = ""


@dataclass(frozen=True)
class Help:
    """How something is called, and what it does, in Markdown."""

    name: str
    arguments: tuple[Argument, ...]
    text: str
    results: str = ""

    @property
    def signature(self) -> str:
        """`softmax(x, axis = -1)`."""
        return f"{self.name}({', '.join(item.text for item in self.arguments)})"


_KINDS = {
    "loss": "a scalar",
    "y": "a value",
    "x": "a value, or a list",
    "v": "a direction, or a list",
}
_DERIVATIVES = {
    "grad": "`g = grad(loss, x)`, `gx, gw = grad(loss, [x, w])`: the gradients of a scalar.",
    "jvp": "`t = jvp(y, x, v)`: how y changes where x goes in the direction v.",
}


@cache
def operation_help(name: str) -> Help | None:
    """An operation of the language; None for another name."""
    if name in DERIVATIVES:
        arguments = tuple(Argument(item, item, _KINDS[item]) for item in DERIVATIVES[name])
        return Help(name, arguments, _DERIVATIVES[name])
    if name == "constant":
        arguments = (
            Argument("value", "value", "numbers, or nested lists of them"),
            Argument("shape", "shape = none", "ints"),
            Argument("T", "T = none", "element type"),
        )
        return Help(name, arguments, "`c = constant([[1.0, 2.0]], T = f32)`: a tensor of numbers.")
    spec = OPERATIONS.get(name)
    if spec is None:
        return None
    return Help(name, tuple(map(_argument, spec.signature)), spec.summary)


@cache
def initialiser_help(name: str) -> Help | None:
    """An initialiser of a parameter or state; None for another name."""
    if name not in INITIALISERS:
        return None
    arguments = tuple(
        Argument(item, item if default is None else f"{item} = {default}", "number")
        for item, default in INITIALISERS[name]
    )
    return Help(name, arguments, "How a parameter or state is filled at first.")


def type_help(name: str) -> str | None:
    """A line about a type that a declaration can name."""
    row = ELEMENT_TYPES.get(name)
    if row is not None:
        return f"`{name}`: {_FAMILIES[row.family]} of {row.bits} bits."
    return f"`{name}`: known when compiling." if name in COMPILE_TIME else None


def operation_names() -> Iterator[str]:
    """What a call can name, the functions of a program aside."""
    yield from sorted([*OPERATIONS, *DERIVATIVES, "constant"])


def _argument(item: OperandSpec | AttributeSpec) -> Argument:
    if isinstance(item, AttributeSpec):
        required = item.default is REQUIRED
        text = item.name if required else f"{item.name} = {_literal(item.default)}"
        return Argument(item.name, text, item.kind.name)
    kind = item.element or "tensor"
    if item.optional:
        return Argument(item.name, f"{item.name} = none", kind)
    if item.default is not None:
        return Argument(item.name, f"{item.name} = {_literal(item.default)}", kind)
    if item.starred:
        return Argument(item.name, f"{item.name}, …", kind)
    return Argument(item.name, f"[{item.name}, …]" if item.variadic else item.name, kind)


def _literal(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, ElementType):
        return value.name
    return f'"{value}"' if isinstance(value, str) else str(value)
