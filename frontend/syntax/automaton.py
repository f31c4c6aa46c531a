"""Runs the tables that Lark makes of the grammar, a token at a time.

In: Lark's LALR(1) tables and tokens. Out: what the rules' callbacks made of them, or a `Misfit`
that says what could have stood there.

A name in an expression passes a dozen rules that change nothing (`?sum: term`). Where that leads
depends on the two states on top and the token that follows: it is worked out once and remembered.
"""

from collections.abc import Callable
from typing import Any

from mgn.frontend.syntax.lexer import Token, token_at

END = "$END"
"""Lark's name of the end of the text."""

_Reduction = tuple[int, Callable[[list[Any]], Any] | None, str]
"""A rule: how many values it takes, what makes one of them (None: it stays as it is), its name."""


class Misfit(Exception):
    """A token that no rule has here; `expected` are the terminals that some rule has."""

    def __init__(self, token: Token, expected: set[str]) -> None:
        super().__init__()
        self.token = token
        self.expected = expected


class Tables:
    """The tables of one start symbol, made ready to run."""

    def __init__(self, lark: Any, start: str) -> None:
        made = lark.parse_interactive(start=start).parser_state.parse_conf
        self.start, self.end = made.start_state, made.end_state
        self.actions: dict[Any, dict[str, Any]] = {}
        self.reductions: dict[Any, dict[str, _Reduction]] = {}
        self.passed: dict[tuple[Any, Any, str], Any] = {}
        for state, row in made.states.items():
            self.actions[state] = {
                str(name): arg for name, (action, arg) in row.items() if not _reduces(action)
            }
            self.reductions[state] = {
                str(name): (
                    len(rule.expansion),
                    _callback(rule, made.callbacks),
                    str(rule.origin.name),
                )
                for name, (action, rule) in row.items()
                if _reduces(action)
            }

    def expected(self, state: Any) -> set[str]:
        """The terminals that may follow in a state."""
        names = {*self.actions[state], *self.reductions[state]}
        return {name for name in names if name.isupper()}


def _reduces(action: Any) -> bool:
    return str(action) == "Reduce"


def _callback(rule: Any, callbacks: Any) -> Callable[[list[Any]], Any] | None:
    """None where a rule of one symbol stands for that symbol's value, as `?sum: term` does."""
    plain = len(rule.expansion) == 1 and not rule.expansion[0].is_term
    if plain and rule.alias is None and rule.options.expand1:
        return None
    return callbacks[rule]


class Automaton:
    """One run of the tables: stacks of states and of values."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.states: list[Any] = [tables.start]
        self.values: list[Any] = []

    def feed(self, token: Token) -> None:
        """Takes a token. Misfit where none of the rules has it; stacks may have changed by then."""
        kind, states, values = token.type, self.states, self.values
        actions = self.tables.actions
        while True:
            following = actions[states[-1]].get(kind)
            if following is not None:
                states.append(following)
                values.append(token)
                return
            self._reduce(kind, token)

    def finish(self, last: Token) -> Any:
        """The value of the whole, after the last token. Misfit where it is not complete."""
        end = token_at(last.place, END)
        while self.states[-1] != self.tables.end:
            self._reduce(END, end)
        return self.values[-1]

    def _reduce(self, kind: str, token: Token) -> None:
        tables, states, values = self.tables, self.states, self.values
        top = states[-1]
        if len(states) > 1:
            passed = tables.passed.get((states[-2], top, kind))
            if passed is not None:
                states[-1] = passed
                return
        reduction = tables.reductions[top].get(kind)
        if reduction is None:
            known = tables.expected(top)
            raise Misfit(token, {name for name in known if self._leads_on(name)})
        size, build, origin = reduction
        if build is None:
            states[-1] = self._pass(kind)
            return
        children = values[-size:] if size else []
        if size:
            del states[-size:], values[-size:]
        values.append(build(children))
        states.append(tables.actions[states[-1]][origin])

    def _leads_on(self, kind: str) -> bool:
        """Whether a terminal can stand here: its rules end in one that takes it.

        The tables alone cannot say so: states that differ in what is open below are one there.
        """
        tables, states = self.tables, list(self.states)
        while kind not in tables.actions[states[-1]]:
            reduction = tables.reductions[states[-1]].get(kind)
            if reduction is None:
                return False
            size, _, origin = reduction
            del states[len(states) - size :]
            states.append(tables.actions[states[-1]][origin])
        return True

    def _pass(self, kind: str) -> Any:
        """The state behind all rules that pass the topmost value on when `kind` follows."""
        tables, below = self.tables, self.states[-2]
        first = state = self.states[-1]
        while True:
            reduction = tables.reductions[state].get(kind)
            if reduction is None or reduction[1] is not None:
                break
            state = tables.actions[below][reduction[2]]
        tables.passed[below, first, kind] = state
        return state
