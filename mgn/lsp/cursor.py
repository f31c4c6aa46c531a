"""Where in a statement the cursor stands: what could be typed there.

In: a text and an index into it. Out: a `Cursor`. Only what stands before the index counts, from the
last line on that begins a function, a graph or another declaration.
"""

from dataclasses import dataclass
from enum import StrEnum

from mgn.frontend.syntax.lexer import Token
from mgn.frontend.syntax.parser import lexer

_BEGINS = ("\nfn ", "\ngraph ", "\nconst ", "\nparam ", "\nstate ", "\nimport ")
_CLOSES = {"RPAR": "LPAR", "RSQB": "LSQB"}


class Wanted(StrEnum):
    """What could stand at the cursor."""

    NOTHING = "nothing"
    STATEMENT = "a statement"
    DECLARATION = "a declaration of the top level"
    EXPRESSION = "an expression"
    MEMBER = "a member"
    TYPE = "a type"
    INITIALISER = "an initialiser"
    FILE = "a file"


@dataclass(frozen=True)
class Call:
    """A call that is open: its name, how many arguments end before the cursor, and the name of the
    argument in which the cursor stands.
    """

    name: str
    position: int
    argument: str | None


@dataclass(frozen=True)
class Cursor:
    """What is wanted, the word that is begun, and the innermost call."""

    wanted: Wanted
    word: str = ""
    call: Call | None = None


def cursor_at(text: str, index: int) -> Cursor:
    """Where the cursor stands."""
    begin = max(text.rfind(word, 0, index) for word in _BEGINS) + 1
    before = text[begin:index]
    tokens = list(lexer().tokens(before))
    if tokens and tokens[-1].type == "OPEN_COMMENT":
        return Cursor(Wanted.NOTHING)
    if tokens and tokens[-1].type == "OPEN_STRING":
        return _in_text(tokens)
    if "//" in before[before.rfind("\n") + 1 :] and _is_in_comment(before):
        return Cursor(Wanted.NOTHING)
    word = ""
    if tokens and before.endswith(str(tokens[-1])) and str(tokens[-1]).isidentifier():
        word = str(tokens.pop())
    elif before[-1:].isalnum():  # a number is being typed
        return Cursor(Wanted.NOTHING, "", _call(tokens))
    return Cursor(_wanted(tokens), word, _call(tokens))


def _is_in_comment(before: str) -> bool:
    """Whether a text ends inside a comment that goes to the end of its line."""
    return len(list(lexer().tokens(before + " x"))) == len(list(lexer().tokens(before)))


def _in_text(tokens: list[Token]) -> Cursor:
    """Inside quotes: a file behind `import`, an expression between braces."""
    inside = str(tokens[-1])
    if len(tokens) > 1 and tokens[-2].type == "IMPORT":
        return Cursor(Wanted.FILE, inside[1:])
    opened = inside.rfind("{")
    if opened < 0 or "}" in inside[opened:] or inside[:opened].endswith("{"):
        return Cursor(Wanted.NOTHING)
    word = inside[opened + 1 :].split(" ")[-1]
    return Cursor(Wanted.EXPRESSION, word if word.isidentifier() else "")


def _opened(tokens: list[Token]) -> list[int]:
    """The indices of the brackets that are open at the end of tokens."""
    found: list[int] = []
    for index, token in enumerate(tokens):
        if token.type in ("LPAR", "LSQB"):
            found.append(index)
        elif token.type in _CLOSES and found:
            found.pop()
        elif token.type in ("LBRACE", "RBRACE"):
            found.clear()
    return found


def _call(tokens: list[Token]) -> Call | None:
    """The innermost call that is open."""
    for index in reversed(_opened(tokens)):
        called = index > 0 and tokens[index - 1].type == "NAME"
        declares = index > 1 and tokens[index - 2].type in ("FN", "GRAPH")
        if tokens[index].type == "LPAR" and called and not declares:
            return _arguments(str(tokens[index - 1]), tokens[index + 1 :])
    return None


def _arguments(name: str, tokens: list[Token]) -> Call:
    depth = position = begin = 0
    for index, token in enumerate(tokens):
        depth += (token.type in _CLOSES.values()) - (token.type in _CLOSES)
        if token.type == "COMMA" and depth == 0:
            position, begin = position + 1, index + 1
    rest = [token for token in tokens[begin:] if token.type != "_NL"]
    named = len(rest) > 1 and rest[0].type == "NAME" and rest[1].type == "EQUAL"
    return Call(name, position, str(rest[0]) if named else None)


def _wanted(tokens: list[Token]) -> Wanted:
    opened = _opened(tokens)
    before = tokens[-1].type if tokens else "_NL"
    if before == "DOT":
        return Wanted.MEMBER
    if before in ("FN", "GRAPH", "PARAM", "STATE", "CONST", "FOR", "AS", "SCOPE", "IMPORT"):
        names = before not in ("AS", "SCOPE")
        return Wanted.NOTHING if names else Wanted.EXPRESSION
    if before == "COLON" and (not opened or tokens[opened[-1]].type == "LPAR"):
        return Wanted.TYPE
    if not opened and before in ("_NL", "LBRACE", "RBRACE", "SEMICOLON"):
        depth = sum((t.type == "LBRACE") - (t.type == "RBRACE") for t in tokens)
        return Wanted.STATEMENT if depth > 0 else Wanted.DECLARATION
    if before == "EQUAL" and not opened and _declares(tokens):
        return Wanted.INITIALISER
    return Wanted.EXPRESSION


def _declares(tokens: list[Token]) -> bool:
    """Whether the last statement is that of a parameter or a state."""
    for token in reversed(tokens):
        if token.type in ("_NL", "LBRACE", "RBRACE", "SEMICOLON"):
            return False
        if token.type in ("PARAM", "STATE"):
            return True
    return False
