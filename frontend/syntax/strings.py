"""The inside of a string literal: escapes, and expressions between braces.

In: the literal with its quotes. Out: pieces of text and parsed expressions. `{{` and `}}` are
braces themselves.
"""

import re
from collections.abc import Callable, Iterator

from mgn.frontend.syntax.ast import Expression, Place

ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", '"': '"', "\\": "\\", "{": "{", "}": "}"}

_PIECE = re.compile(r"\\(.)|(\{\{|\}\})|\{([^{}]*)\}|([{}])|([^\\{}]+)")


class TextFault(Exception):
    """A string that cannot be read, and where."""

    def __init__(self, place: Place, message: str) -> None:
        super().__init__(message)
        self.place = place
        self.message = message


def split_text(
    literal: str, place: Place, parse_expression: Callable[[str, Place], Expression]
) -> list[str | Expression]:
    """The pieces of a literal. Raises TextFault."""
    inside = literal[1:-1]
    if "\\" not in inside and "{" not in inside and "}" not in inside:
        return [inside]
    parts: list[str | Expression] = []
    for match in _PIECE.finditer(inside):
        here = (place[0], place[1] + 1 + match.start())
        escape, double, code, brace, plain = match.groups()
        if escape is not None:
            if escape not in ESCAPES:
                raise TextFault(here, f"unknown escape '\\{escape}' in a text")
            parts.append(ESCAPES[escape])
        elif double is not None:
            parts.append(double[0])
        elif code is not None:
            inner = (here[0], here[1] + 1)
            parts.append(parse_expression(code, inner))
        elif brace is not None:
            raise TextFault(
                here, f"'{brace}' in a text is not paired; write {brace * 2} for itself"
            )
        else:
            parts.append(plain)
    return parts


def interpolated(literal: str) -> Iterator[tuple[int, str]]:
    """What stands between braces in a literal, and where in it that begins."""
    inside = literal[1:-1]
    for match in _PIECE.finditer(inside) if "{" in inside else ():
        if match[3] is not None:
            yield match.start(3) + 1, match[3]


def quote(text: str) -> str:
    """A literal that `split_text` reads back as `text`."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("{", "{{").replace("}", "}}")
    for letter in "ntr0":
        escaped = escaped.replace(ESCAPES[letter], f"\\{letter}")
    return f'"{escaped}"'
