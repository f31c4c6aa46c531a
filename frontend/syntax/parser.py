"""Text to syntax tree, with every syntax error of the text in one go.

In: the text of a file. Out: a block of top-level statements and the diagnostics found. After an
error the parser goes on behind the statement; the names it would have bound are kept in a
`Broken` statement.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from lark import Lark

from mgn.diagnostics import Diagnostic
from mgn.frontend.syntax import ast
from mgn.frontend.syntax.ast import Expression, Place
from mgn.frontend.syntax.ast_builder import AstBuilder, SyntaxFault
from mgn.frontend.syntax.automaton import END, Automaton, Misfit, Tables
from mgn.frontend.syntax.lexer import Lexer, Token, token_at
from mgn.frontend.syntax.source import Source
from mgn.frontend.syntax.strings import TextFault
from mgn.frontend.syntax.tokens import (
    CONTINUES,
    KEYWORDS,
    OPENS_STATEMENT,
    TooDeep,
    end_statements,
    keyword_message,
)

LONGEST_LINE = 1_000_000
"""Characters that a line may have."""

MOST_ERRORS = 100
"""After so many syntax errors the rest of a file is not looked at."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")
_EXPRESSION_STARTS = frozenset({"NAME", "INT", "FLOAT", "STRING", "TRUE", "LPAR"})
_SPELLING = {
    "RPAR": "')'",
    "RSQB": "']'",
    "LPAR": "'('",
    "LSQB": "'['",
    "LBRACE": "'{'",
    "EQUAL": "'='",
    "COLON": "':'",
    "COMMA": "','",
    "NAME": "a name",
    "STRING": "a text in quotes",
    "IN": "'in'",
    "RANGE": "'..'",
    "_NL": "the end of the statement",
    "IF": "'if'",
}
_DECLARES = frozenset({"PARAM", "STATE", "CONST", "FN", "GRAPH"})


_MODULES = frozenset({"F", "functional", "jnp", "math", "mgn", "nn", "np", "numpy", "ops", "torch"})
"""What operations are functions of in Python, where a program writes their names alone."""


class _TooMany(Exception):
    """Enough errors were reported."""


class _KeepOddText:
    """Tells Lark to keep the terminals that only the token filter knows."""

    always_accept = ("SEMICOLON", "OPEN_STRING", "OPEN_COMMENT", "RUBBISH")

    def process(self, stream: Any) -> Any:
        """The tokens, unchanged: `end_statements` filters them."""
        return stream


@dataclass(frozen=True)
class _Grammar:
    """What is made of the grammar file, once."""

    lexer: Lexer
    program: Tables
    interpolation: Tables


@lru_cache(maxsize=1)
def _grammar() -> _Grammar:
    grammar = files("mgn.frontend").joinpath("grammar.lark").read_text(encoding="utf-8")
    lark: Any = Lark(
        grammar,
        parser="lalr",
        lexer="basic",
        start=["program", "interpolation"],
        maybe_placeholders=False,
        propagate_positions=False,
        postlex=_KeepOddText(),
        transformer=AstBuilder(_parse_interpolation),
    )
    lexer = Lexer(lark.terminals, lark.ignore_tokens)
    return _Grammar(lexer, Tables(lark, "program"), Tables(lark, "interpolation"))


def lexer() -> Lexer:
    """The lexer of the language."""
    return _grammar().lexer


def parse_text(source: Source) -> tuple[ast.Block, list[Diagnostic]]:
    """The statements of a file and its syntax errors, in order."""
    run = _Run(source)
    try:
        block = run.program()
    except TooDeep as fault:
        run.diagnostics.append(
            source.error(fault.place, f"nested more than {ast.NESTING_LIMIT} levels deep")
        )
        block = ast.Block([])
    except _TooMany:
        block = ast.Block([])
    run.diagnostics.sort(key=lambda item: (item.line, item.column))
    return block, run.diagnostics


class _Run:
    """One run of the parser over one text."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []

    def report(self, place: Place, message: str) -> None:
        self.diagnostics.append(self.source.error(place, message))
        if len(self.diagnostics) >= MOST_ERRORS:
            raise _TooMany

    def program(self) -> ast.Block:
        long = self.source.line_longer_than(LONGEST_LINE)
        if long is not None:
            self.report((long, 1), f"the line is longer than {LONGEST_LINE:,} characters")
            return ast.Block([])
        odd = _CONTROL.search(self.source.text)
        if odd is not None:
            self.report(
                self.source.place_of(odd.start()),
                f"the file is not text: it holds the character U+{ord(odd.group()):04X}",
            )
            return ast.Block([])
        tokens = list(end_statements(_grammar().lexer.tokens(self.source.text), self.report))
        if not tokens:
            return ast.Block([])
        automaton = Automaton(_grammar().program)
        self._feed_all(automaton, tokens)
        try:
            return automaton.finish(tokens[-1])
        except Misfit as fault:  # a broken statement took the brace that closes its block
            if not self.diagnostics:
                self._explain(fault, fault.token, tokens, len(tokens))
            return ast.Block([])

    def _feed_all(self, automaton: Automaton, tokens: Sequence[Token]) -> None:
        begin = position = 0
        states, values = list(automaton.states), list(automaton.values)
        feed = automaton.feed
        while position < len(tokens):
            token = tokens[position]
            kind = token.type
            try:
                if kind == "BROKEN":
                    raise _Reported
                feed(token)
            except (_Reported, Misfit, SyntaxFault, TextFault) as fault:
                self._explain(fault, token, tokens, position)
                automaton.states[:], automaton.values[:] = states, values
                end = _statement_end(tokens, begin, position)
                if position > begin and _opens_another(tokens[position - 1], token):
                    end = position
                feed(token_at(tokens[begin].place, "BROKEN", _broken(tokens[begin:end])))
                if end == position and kind != "_NL":
                    feed(token_at(token.place, "_NL", "\n"))
                    begin = position
                    states, values = list(automaton.states), list(automaton.values)
                position = end
                continue
            position += 1
            if kind == "_NL" or kind == "LBRACE":
                begin = position
                states, values = list(automaton.states), list(automaton.values)

    def _explain(
        self, fault: Exception, token: Token, tokens: Sequence[Token], position: int
    ) -> None:
        if isinstance(fault, SyntaxFault | TextFault):
            self.report(fault.place, fault.message)
        elif isinstance(fault, Misfit):
            place, message = _told_apart(token, fault.expected, tokens, position)
            self.report(place, message)


class _Reported(Exception):
    """The token filter has already said what is wrong."""


def _parse_interpolation(code: str, place: Place) -> Expression:
    """The expression between braces of a string. Raises TextFault."""
    automaton = Automaton(_grammar().interpolation)
    last = token_at(place, "_NL")
    faults: list[tuple[Place, str]] = []
    line = place[0]

    def report(where: Place, message: str) -> None:
        faults.append(((line, where[1]), message))

    try:
        for token in end_statements(_shifted(code, place), report):
            if token.type == "_NL":
                continue
            last = token
            if token.type == "BROKEN":
                break
            automaton.feed(token)
        if faults:
            raise TextFault(*faults[0])
        return automaton.finish(last)
    except Misfit as fault:
        raise TextFault(last.place, "an expression is needed between { and }") from fault


def _shifted(code: str, place: Place) -> Sequence[Token]:
    tokens = list(_grammar().lexer.tokens(code))
    for token in tokens:
        token.line, token.column = place[0], place[1] + token.column - 1
    return tokens


def _opens_another(before: Token, token: Token) -> bool:
    """Whether a token on a new line begins a statement, so that the one before breaks off there."""
    return token.type in OPENS_STATEMENT and token.line > before.line


def _statement_end(tokens: Sequence[Token], begin: int, position: int) -> int:
    """Index of the `_NL`, at or after `position`, that ends the statement from `begin`."""
    depth = 0
    for index in range(begin, len(tokens)):
        kind = tokens[index].type
        if kind == "LBRACE":
            depth += 1
        elif kind == "RBRACE":
            depth -= 1
        elif kind == "_NL" and depth == 0 and index >= position:
            return index
    return len(tokens) - 1


def _broken(tokens: Sequence[Token]) -> ast.Broken:
    returns = any(token.type == "RETURN" for token in tokens)
    return ast.Broken(tokens[0].place, _names_bound(tokens), returns)


def _names_bound(tokens: Sequence[Token]) -> frozenset[str]:
    """Names that a statement would have bound, as far as its tokens show."""
    names: set[str] = set()
    leading = True
    for index, token in enumerate(tokens):
        following = tokens[index + 1].type if index + 1 < len(tokens) else "_NL"
        leading = leading and token.type in ("NAME", "COMMA")
        declared = index > 0 and tokens[index - 1].type in _DECLARES
        if token.type == "NAME" and (following == "EQUAL" or leading or declared):
            names.add(str(token))
    return frozenset(names)


def _told_apart(
    token: Token, expected: set[str], tokens: Sequence[Token], position: int
) -> tuple[Place, str]:
    """The place and the message for an unexpected token: what stands before it may be at fault."""
    before = tokens[position - 1] if position else None
    dangling = _dangling(token, expected, tokens, position)
    if dangling is not None:
        wanted = "a name" if expected == {"NAME"} else "an expression"
        return dangling.place, f"nothing follows '{dangling}' on its line: expected {wanted}"
    kinds = [item.type for item in tokens[max(position - 4, 0) : position]]
    if before is not None and token.type == "LPAR" and kinds[-2:] == ["DOT", "NAME"]:
        if before == "T":
            return token.place, "'.T' is not called; it takes no '(…)'"
        is_named = kinds[-3] == "NAME" and kinds[0] != "DOT"
        if tokens[position - 3] in _MODULES:
            return before.place, f"there are no modules; write {before}(…)"
        operand = tokens[position - 3] if is_named else "x"
        return before.place, f"there are no methods; write {before}({operand}, …)"
    return token.place, _unexpected(token, expected, before)


def _dangling(
    token: Token, expected: set[str], tokens: Sequence[Token], position: int
) -> Token | None:
    """The operator at the end of a line after which the next one is a statement or a brace."""
    at = position - 1
    if token.type == "EQUAL" and at > 0 and tokens[at].type == "NAME":
        at -= 1
    elif not (expected >= _EXPRESSION_STARTS or expected == {"NAME"}):
        return None
    if at < 0 or tokens[at].type not in CONTINUES:
        return None
    following = tokens[at + 1] if at + 1 < len(tokens) else token
    return tokens[at] if tokens[at].line < following.line else None


def _unexpected(token: Token, expected: set[str], before: Token | None) -> str:
    found = "the statement ends here" if token.type == "_NL" else f"unexpected '{token}'"
    if token.type == "RBRACE":
        found = "unexpected '}'"
    if token.type in KEYWORDS and "NAME" in expected and before is not None:
        return keyword_message(token)
    if token.type == END:
        found = "the file ends here"
    if expected >= {"CONST", "FN", "GRAPH"} and before is None:
        return f"{found}: expected const, fn, graph, param, state or import"
    if expected >= _EXPRESSION_STARTS:
        return f"{found}: expected an expression"
    known = [_SPELLING[name] for name in sorted(expected) if name in _SPELLING]
    if len(known) == len(expected) and 0 < len(known) <= 4:
        listing = known[0] if len(known) == 1 else f"{', '.join(known[:-1])} or {known[-1]}"
        return f"{found}: expected {listing}"
    closing = [_SPELLING[name] for name in ("RPAR", "RSQB") if name in expected]
    if closing and token.type not in ("EQUAL",):
        return f"{found}: expected ',' or {closing[0]}"
    return found
