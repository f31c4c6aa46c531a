"""A program's text written in another way: parts of it as functions, loops and branches.

In: the text that `print_mgn` gives, and a generator. Out: a text that lowers to the same module.
"""

import random
import re

_STATEMENT = re.compile(r"^  (?=\S)", re.MULTILINE)
_BOUND = re.compile(r"(v\d+) = (.*)", re.DOTALL)
_NAME = re.compile(r"\b[vxw]\d+\b")


def respelled(text: str, rng: random.Random) -> str:
    """The same program with a function for some statements, and others in loops and branches."""
    head, brace, body = text.partition("{\n")
    *statements, last = _STATEMENT.split(body)[1:]
    first = next((n for n, item in enumerate(statements) if not item.startswith("param")), None)
    function = ""
    if first is not None and rng.random() < 0.7:
        start = rng.randrange(first, len(statements))
        stop = start
        while stop < len(statements) and not statements[stop].startswith("param"):
            stop += 1
        if stop > start:
            stop = rng.randint(start + 1, stop)
            function, called = _called(statements[start:stop], [*statements[stop:], last])
            statements[start:stop] = [called]
    written = [_wrapped(item, rng) if rng.random() < 0.3 else item for item in statements]
    return f"{function}{head}{brace}{''.join('  ' + item for item in [*written, last])}"


def _called(part: list[str], after: list[str]) -> tuple[str, str]:
    """Statements as a function, and its call."""
    made = [name for item in part for name in _targets(item)]
    read = [name for item in part for name in _NAME.findall(item) if name not in made]
    wanted = set(_NAME.findall("".join(after)))
    given = list(dict.fromkeys(name for name in made if name in wanted)) or made[-1:]
    arguments = ", ".join(dict.fromkeys(read))
    body = "".join("  " + item for item in part)
    call = f"{', '.join(given)} = part({arguments})\n"
    return f"fn part({arguments}) {{\n{body}  return {', '.join(given)}\n}}\n\n", call


def _targets(statement: str) -> list[str]:
    """The names that a statement binds."""
    return _NAME.findall(statement.partition("=")[0])


def _wrapped(statement: str, rng: random.Random) -> str:
    """A statement of one operand inside a loop of one turn, or a branch that is taken."""
    bound = _BOUND.fullmatch(statement)
    names = set(_NAME.findall(bound[2])) if bound else set()
    if bound is None or len(names) != 1:
        return statement
    (name,) = names
    again = re.sub(rf"\b{name}\b", bound[1], bound[2])
    start = rng.choice(("for i in 2..3", "if 1 < 2"))
    end = "}" if start.startswith("for") else f"}} else {{ {bound[1]} = 0.0 }}"
    return f"{bound[1]} = {name}\n  {start} {{\n    {bound[1]} = {again}  {end}\n"
