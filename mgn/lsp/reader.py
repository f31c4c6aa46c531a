"""Reads which name means what, from the tokens of a text: it may be broken anywhere.

In: a text. Out: a `Reading`. Names follow the rules of the language: a function's names are its
own, a block's end with it, `=` binds again what is bound already.
"""

from collections.abc import Iterator, Sequence

from mgn.dialects.garbage import collector_paused
from mgn.frontend.syntax.ast import Place
from mgn.frontend.syntax.lexer import Token
from mgn.frontend.syntax.parser import lexer
from mgn.frontend.syntax.strings import interpolated
from mgn.frontend.syntax.tokens import TooDeep, end_statements
from mgn.lsp.symbols import Kind, Occurrence, Reading, Role, Scope, Symbol

_OPENS = frozenset({"LPAR", "LSQB"})
_CLOSES = frozenset({"RPAR", "RSQB"})
_ENDS = frozenset({"_NL", "LBRACE", "RBRACE"})

_FORMALS: dict[str, tuple[Kind, dict[str, Kind]]] = {
    "FN": (Kind.FN, {"LPAR": Kind.FORMAL}),
    "GRAPH": (Kind.GRAPH, {"LSQB": Kind.DIMENSION, "LPAR": Kind.INPUT}),
}
"""What a keyword declares, and what stands in each of its brackets."""


def read_names(text: str) -> Reading:
    """What a text names."""
    with collector_paused():
        return _Reader(text).run()


def _tokens_of(text: str) -> list[Token]:
    """The tokens as the parser sees them, up to where they are nested too deeply."""
    tokens: list[Token] = []
    try:
        for token in end_statements(lexer().tokens(text), lambda place, message: None):
            tokens.append(token)
    except TooDeep:
        pass
    return tokens


def inner_tokens(token: Token) -> Iterator[list[Token]]:
    """The tokens of each expression between braces of a text in quotes."""
    for offset, code in interpolated(token):
        inside = list(lexer().tokens(code))
        for item in inside:
            item.line, item.column = token.line, token.column + offset + item.column - 1
        yield inside


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.top = Scope((1, 1))
        self.blocks: list[Scope] = [self.top]
        """The scope of each open block; that of a `scope` is the one around it."""
        self.scopes: list[Scope] = []
        self.opening: Scope | None = None
        """The scope of the block that the next brace opens."""
        self.found: list[Occurrence] = []
        self.imports: list[tuple[str, Place, Place]] = []
        self.unclosed: list[Symbol | None] = [None]
        self.last: Place = (1, 1)
        """Where the token before stands."""

    def run(self) -> Reading:
        tokens = _tokens_of(self.text)
        index, count = 0, len(tokens)
        while index < count:
            token = tokens[index]
            if token.type == "RBRACE":
                self._close(token)
            elif token.type == "LBRACE":
                self._open(token)
            elif token.type != "_NL":
                begin = index
                while index < count and tokens[index].type not in _ENDS:
                    index += 1
                opens = index < count and tokens[index].type == "LBRACE"
                self._statement(tokens[begin:index], opens)
                self.last = tokens[index - 1].place
                continue
            self.last = max(self.last, token.place)
            index += 1
        self._resolve()
        return Reading(self.found, self.top.names, self.scopes, self.imports)

    # ---- blocks

    def _open(self, token: Token) -> None:
        self.blocks.append(self.opening or self._new_scope(token.place))
        if self.opening is None:
            self.unclosed.append(None)
        self.opening = None

    def _close(self, token: Token) -> None:
        if len(self.blocks) == 1:
            return
        scope = self.blocks.pop()
        owner = self.unclosed.pop()
        is_missing = token.place <= self.last  # and stands where the block begins
        if scope not in self.blocks and not is_missing:
            scope.end = token.place
        if owner is not None:
            owner.end = max((token.line, token.column + 1), self.last)

    def _new_scope(
        self, place: Place, is_frame: bool = False, owner: Symbol | None = None
    ) -> Scope:
        around = self.blocks[-1]
        scope = Scope(place, is_frame, owner or around.owner)
        self.scopes.append(scope)
        return scope

    # ---- names

    def _declare(
        self, token: Token, kind: Kind, scope: Scope | None = None, place: Place | None = None
    ) -> Symbol:
        """A new symbol, or the one that a scope has by that name already."""
        scope = scope or self.blocks[-1]
        name = str(token)
        known = scope.names.get(name)
        if known is not None:
            self._note(token, Role.BINDS).symbol = known
            return known
        symbol = Symbol(name, kind, token.place, scope, place or token.place)
        symbol.end = (token.line, token.column + len(name))
        scope.names[name] = symbol
        if scope.owner is not None and scope.owner is not symbol:
            scope.owner.members.append(symbol)
        self._note(token, Role.DECLARES).symbol = symbol
        return symbol

    def _note(self, token: Token, role: Role, callee: str | None = None) -> Occurrence:
        found = Occurrence(str(token), token.place, role, None, callee)
        self.found.append(found)
        return found

    def _find(self, name: str) -> Symbol | None:
        """What a name means inside the innermost function or graph."""
        for scope in (*reversed(self.blocks), self.top):
            if name in scope.names and scope is not self.top:
                return scope.names[name]
            if scope.is_frame:
                break
        return None

    def _resolve(self) -> None:
        """Gives each name what it means, where that is known in the whole file alone."""
        known = self.top.names
        for item in self.found:
            if item.symbol is None and item.role is Role.NAMES_ARGUMENT:
                callee = known.get(item.callee or "")
                formals = callee.formals if callee is not None else ()
                item.symbol = next((one for one in formals if one.name == item.name), None)
            elif item.symbol is None and item.role in (Role.READS, Role.CALLS, Role.BINDS):
                item.symbol = known.get(item.name)
            if item.symbol is not None:
                item.symbol.occurrences.append(item)

    # ---- statements

    def _statement(self, tokens: Sequence[Token], opens: bool) -> None:
        first = tokens[0].type
        handler = {
            "IMPORT": self._import,
            "CONST": self._const,
            "FN": self._declaration,
            "GRAPH": self._declaration,
            "PARAM": self._declared,
            "STATE": self._declared,
            "FOR": self._for,
            "RETURN": self._return,
        }.get(first, self._plain)
        handler(tokens, opens)
        if opens and self.opening is None:
            around = self.blocks[-1]
            self.opening = around if first == "SCOPE" else self._new_scope(tokens[0].place)
            self.unclosed.append(None)

    def _import(self, tokens: Sequence[Token], _: bool) -> None:
        if len(tokens) > 1 and tokens[1].type == "STRING":
            end = (tokens[1].line, tokens[1].column + len(tokens[1]))
            self.imports.append((str(tokens[1])[1:-1], tokens[1].place, end))

    def _const(self, tokens: Sequence[Token], _: bool) -> None:
        for part in _divided(tokens[1:]):
            if len(part) > 1 and part[0].type == "NAME" and part[1].type == "EQUAL":
                self._expression(part[2:])
                symbol = self._declare(part[0], Kind.CONST)
                symbol.head = f"const {_spelled(part)}"
                symbol.end = _end_of(part[-1])
            else:
                self._expression(part)

    def _declaration(self, tokens: Sequence[Token], opens: bool) -> None:
        """A function or a graph, with what it takes."""
        kind, brackets = _FORMALS[tokens[0].type]
        symbol, scope = self._header(tokens, kind, opens)
        if symbol is None or scope is None:
            self._expression(tokens)
            return
        rest = tokens[2:]
        for bracket, formal in brackets.items():
            inside, rest = _bracketed(rest, bracket)
            for part in _divided(inside):
                self._formal(part, formal, symbol, scope)
        self._expression(rest)
        self._leave_header(scope, opens)

    def _header(
        self, tokens: Sequence[Token], kind: Kind, opens: bool
    ) -> tuple[Symbol | None, Scope | None]:
        """A function's or graph's own symbol, and the scope of what it declares."""
        if len(tokens) < 2 or tokens[1].type != "NAME":
            return None, None
        symbol = self._declare(tokens[1], kind)
        symbol.head, symbol.end = _spelled(tokens), _end_of(tokens[-1])
        symbol.statement = tokens[0].place
        scope = self._new_scope(tokens[1].place, is_frame=True, owner=symbol)
        self.blocks.append(scope)
        if opens:
            self.unclosed.append(symbol)
        return symbol, scope

    def _leave_header(self, scope: Scope, opens: bool) -> None:
        self.blocks.pop()
        if opens:
            self.opening = scope
        else:
            scope.end = scope.begin

    def _formal(self, part: Sequence[Token], kind: Kind, owner: Symbol, scope: Scope) -> None:
        if not part or part[0].type != "NAME":
            self._expression(part)
            return
        self._expression(part[1:])
        symbol = self._declare(part[0], kind, scope)
        symbol.head = _spelled(part)
        if kind is not Kind.DIMENSION:
            owner.formals.append(symbol)

    def _declared(self, tokens: Sequence[Token], _: bool) -> None:
        if len(tokens) < 2 or tokens[1].type != "NAME":
            self._expression(tokens[1:])
            return
        self._expression(tokens[2:], initialises=True)
        kind = Kind.PARAM if tokens[0].type == "PARAM" else Kind.STATE
        symbol = self._declare(tokens[1], kind)
        symbol.head, symbol.end = _spelled(tokens), _end_of(tokens[-1])
        if not any(token.type == "AS" for token in tokens) and len(tokens) > 3:
            inside = _bracketed(tokens[4:], "LSQB")[0]
            closed = 4 + len(inside) + 1 if tokens[4:] and tokens[4].type == "LSQB" else 3
            symbol.external_place = _end_of(tokens[min(closed, len(tokens) - 1)])

    def _for(self, tokens: Sequence[Token], opens: bool) -> None:
        if len(tokens) < 2 or tokens[1].type != "NAME":
            self._expression(tokens[1:])
            return
        self._expression(tokens[2:])
        scope = self._new_scope(tokens[0].place)
        self._declare(tokens[1], Kind.LOOP, scope, tokens[0].place)
        if opens:
            self.opening = scope
            self.unclosed.append(None)
        else:
            scope.end = scope.begin

    def _return(self, tokens: Sequence[Token], _: bool) -> None:
        for part in _divided(tokens[1:]):
            if len(part) > 1 and part[0].type == "NAME" and part[1].type == "EQUAL":
                self._note(part[0], Role.NAMES_RESULT)
                self._expression(part[2:])
                continue
            before = len(self.found)
            self._expression(part)
            if len(part) == 1 and len(self.found) > before:
                self.found[-1].is_result = True

    def _plain(self, tokens: Sequence[Token], _: bool) -> None:
        """`a, b = …`, `a <- …`, or an expression."""
        targets = 0
        while targets < len(tokens) and tokens[targets].type in ("NAME", "COMMA"):
            targets += 1
        if targets < len(tokens) and tokens[targets].type == "WRITE":
            self._expression(tokens[targets + 1 :])
            for token in tokens[:targets]:
                if token.type == "NAME":
                    self._note(token, Role.BINDS).symbol = self._find(token)
            return
        if not targets or targets == len(tokens) or tokens[targets].type != "EQUAL":
            self._expression(tokens)
            return
        self._expression(tokens[targets + 1 :])
        for token in tokens[:targets]:
            if token.type == "NAME":
                self._bind(token)

    def _bind(self, token: Token) -> None:
        known = self._find(token)
        if known is not None:
            self._note(token, Role.BINDS).symbol = known
        elif len(self.blocks) > 1:
            self._declare(token, Kind.VARIABLE)
        else:
            self._note(token, Role.BINDS)

    # ---- expressions

    def _expression(self, tokens: Sequence[Token], initialises: bool = False) -> None:
        brackets: list[str | None] = []
        for index, token in enumerate(tokens):
            kind = token.type
            before = tokens[index - 1].type if index else ""
            if kind in _OPENS:
                called = kind == "LPAR" and before == "NAME"
                brackets.append(str(tokens[index - 1]) if called else None)
            elif kind in _CLOSES and brackets:
                brackets.pop()
            elif kind == "STRING":
                for inside in inner_tokens(token):
                    self._expression(inside)
            elif kind == "NAME":
                after = tokens[index + 1].type if index + 1 < len(tokens) else ""
                self._name(token, before, after, brackets, initialises)

    def _name(
        self,
        token: Token,
        before: str,
        after: str,
        brackets: Sequence[str | None],
        initialises: bool,
    ) -> None:
        if before == "DOT":
            self._note(token, Role.IS_MEMBER)
        elif before == "COLON" and not brackets:
            self._note(token, Role.IS_TYPE)
        elif after == "LPAR":
            first = initialises and before == "EQUAL" and not brackets
            self._note(token, Role.INITIALISES if first else Role.CALLS)
        elif after == "EQUAL" and brackets and brackets[-1] is not None:
            self._note(token, Role.NAMES_ARGUMENT, brackets[-1])
        else:
            self._note(token, Role.READS).symbol = self._find(token)


def _divided(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Tokens between commas that stand in no bracket."""
    depth = begin = 0
    for index, token in enumerate(tokens):
        if token.type in _OPENS:
            depth += 1
        elif token.type in _CLOSES:
            depth -= 1
        elif token.type == "COMMA" and depth == 0:
            yield tokens[begin:index]
            begin = index + 1
    if begin < len(tokens):
        yield tokens[begin:]


def _bracketed(tokens: Sequence[Token], bracket: str) -> tuple[Sequence[Token], Sequence[Token]]:
    """What stands in the bracket with which tokens begin, and what follows it."""
    if not tokens or tokens[0].type != bracket:
        return (), tokens
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.type in _OPENS) - (token.type in _CLOSES)
        if depth == 0:
            return tokens[1:index], tokens[index + 1 :]
    return tokens[1:], ()


def _end_of(token: Token) -> Place:
    return token.line, token.column + len(token)


def _spelled(tokens: Sequence[Token]) -> str:
    """Tokens on one line, in the style of the language as far as declarations need it."""
    text = ""
    before = ""
    for token in tokens:
        kind = token.type
        tight = (
            kind in ("RPAR", "RSQB", "COMMA", "COLON", "DOT", "RANGE", "BROKEN")
            or before in ("LPAR", "LSQB", "DOT", "RANGE", "")
            or (kind in _OPENS and before in ("NAME", "RSQB"))
        )
        text += str(token) if tight else f" {token}"
        before = kind
    return text
