"""Ways to break a text so that most of it still is what it was.

In: a text and other texts of its kind. Out: a text with tokens, whole brackets or lines left out,
said twice, swapped, taken from another text, made extreme, nested, or with odd characters in it.
"""

import random
import re
from collections.abc import Callable, Sequence

Mutation = Callable[[random.Random, list[str], Sequence[list[str]]], list[str]]

_TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[A-Za-z_][\w.]*|\d[\w.]*|\s+|<-|->|\*\*|==|\.\.\.?|.', re.S
)
_OPENS, _CLOSES = "([{<", ")]}>"

NUMBERS = (
    *("0", "1", "-1", "2", "3", "7", "63", "64", "65", "127", "255", "256", "1000", "65536"),
    *("1000000", "2147483647", "2147483648", "4294967296", "4611686018427387904", "1e308", "1e-45"),
    *("9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616"),
    *("1" + "0" * 30, "9" * 5000, "0x7FFFFFFFFFFFFFFF", "0x", "1e400", "nan", "inf", "-inf", "0.0"),
    *("-0.0", "1.5", "0.1", "1e5", "1_000", "00", "1e", "1.e5", ".5", "true", "false", "none"),
)
ODD = (
    *(
        "\0",
        "\x07",
        "\x1b[31m",
        "\x7f",
        "\ufeff",
        "\u202e",
        "é",
        "λ",
        "名",
        "𝔘",
        "\U0010ffff",
        "\u2028",
    ),
    *(
        "\r",
        "\r\n",
        "\v",
        "\f",
        "\t",
        "\\",
        "'",
        "`",
        "$",
        "?",
        "~",
        "|",
        "&",
        "^",
        "#",
        '"',
        '"\\',
    ),
    *("/*", "*/", "//", "{", "}", "(", ")", "[", "]", "<", ">", "{{", "}}", ";", "\n", "..", "->"),
)


def tokens_of(text: str) -> list[str]:
    """A text cut into pieces that mean something on their own, blanks included."""
    return _TOKEN.findall(text)


def mutate(random_: random.Random, text: str, others: Sequence[list[str]]) -> str:
    """A text with one to four mutations."""
    tokens = tokens_of(text)
    for _ in range(random_.choice((1, 1, 1, 2, 2, 3, 4))):
        if not tokens:
            tokens = list(random_.choice(others))
        changed = random_.choice(_MUTATIONS)(random_, tokens, others)
        tokens = [token for token in changed if token]
    return "".join(tokens)


def _place(random_: random.Random, tokens: Sequence[str]) -> int:
    """Where a token is that is no blank, where there is one."""
    for _ in range(4):
        index = random_.randrange(len(tokens))
        if not tokens[index].isspace():
            return index
    return random_.randrange(len(tokens))


def _tree(random_: random.Random, tokens: Sequence[str]) -> tuple[int, int]:
    """The first and the last place of a token, or of a bracket with all inside."""
    start = _place(random_, tokens)
    opened = [i for i in range(max(0, start - 40), start + 1) if tokens[i] in _OPENS]
    if opened:
        start = opened[-1]
    depth = 0
    for index in range(start, min(len(tokens), start + 400)):
        if tokens[index] in _OPENS:
            depth += 1
        elif tokens[index] in _CLOSES:
            depth -= 1
        if depth <= 0:
            return start, index + 1
    return start, start + 1


def _leave_out(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    start = _place(random_, tokens)
    return tokens[:start] + tokens[start + random_.choice((1, 1, 2, 5)) :]


def _leave_out_tree(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    start, end = _tree(random_, tokens)
    return tokens[:start] + tokens[end:]


def _say_twice(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    start, end = _tree(random_, tokens)
    times = random_.choice((1, 1, 1, 2, 30))
    return tokens[:end] + tokens[start:end] * times + tokens[end:]


def _swap(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    a, b = _place(random_, tokens), _place(random_, tokens)
    changed = list(tokens)
    changed[a], changed[b] = changed[b], changed[a]
    return changed


def _other_token(
    random_: random.Random, tokens: list[str], others: Sequence[list[str]]
) -> list[str]:
    source = random_.choice((tokens, random_.choice(others)))
    changed = list(tokens)
    changed[_place(random_, tokens)] = source[_place(random_, source)]
    return changed


def _other_name(
    random_: random.Random, tokens: list[str], others: Sequence[list[str]]
) -> list[str]:
    """A name in the place of a name: one that is known, but not here, or of another kind."""
    source = random_.choice((tokens, tokens, random_.choice(others)))
    names = [item for item in source if item[0].isalpha() or item[0] in '"_']
    places = [i for i, item in enumerate(tokens) if item[0].isalpha() or item[0] in '"_']
    if not names or not places:
        return tokens
    changed = list(tokens)
    changed[random_.choice(places)] = random_.choice(names)
    return changed


def _splice(random_: random.Random, tokens: list[str], others: Sequence[list[str]]) -> list[str]:
    """A bracket, or a few tokens, of another text in the place of one here."""
    other = random_.choice(others)
    start, end = _tree(random_, tokens)
    first, last = _tree(random_, other)
    return tokens[:start] + other[first:last] + tokens[end:]


def _lines(random_: random.Random, tokens: list[str], others: Sequence[list[str]]) -> list[str]:
    """A line of this or another text here, or a line moved."""
    source = random_.choice((tokens, random_.choice(others)))
    line = random_.choice("".join(source).split("\n"))
    lines = "".join(tokens).split("\n")
    place = random_.randrange(len(lines))
    lines[place : place + random_.randrange(2)] = [line]
    return tokens_of("\n".join(lines))


def _number(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    places = [i for i, item in enumerate(tokens) if item[0].isdigit()]
    changed = list(tokens)
    changed[random_.choice(places) if places else _place(random_, tokens)] = random_.choice(NUMBERS)
    return changed


def _nest(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    start, end = _tree(random_, tokens)
    before, after = random_.choice(
        (("(", ")"), ("[", "]"), ("-", ""), ("{", "}"), ("relu(", ")"), ("<", ">"), ("not ", ""))
    )
    deep = random_.choice((1, 2, 3, 20, 250, 3000))
    return [*tokens[:start], before * deep, *tokens[start:end], after * deep, *tokens[end:]]


def _odd(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    place = random_.randrange(len(tokens) + 1)
    times = random_.choice((1, 1, 1, 1, 2, 500))
    return [*tokens[:place], random_.choice(ODD) * times, *tokens[place:]]


def _cut(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    place = random_.randrange(len(tokens))
    return tokens[:place] if random_.randrange(3) else tokens[place:]


def _inside_token(random_: random.Random, tokens: list[str], _: Sequence[list[str]]) -> list[str]:
    place = _place(random_, tokens)
    token = tokens[place]
    at = random_.randrange(len(token) + 1)
    changed = list(tokens)
    insert = random_.choice(("", random_.choice(ODD), random_.choice(NUMBERS[:12]), token))
    changed[place] = token[:at] + insert + token[at + random_.randrange(2) :]
    return changed


_MUTATIONS: tuple[Mutation, ...] = (
    *(_leave_out, _leave_out_tree, _say_twice, _swap, _other_token, _other_name, _other_name),
    *(_splice, _splice, _lines, _number, _number, _nest, _odd, _cut, _inside_token),
)
