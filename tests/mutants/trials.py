"""Mutants of the rule table: how they are made, which are taken, and what the trials make of one.

In: rows of the rule table. Out: mutants, and the fate of each.

A mutant is a row with one change: a condition less, operands swapped, an operation, number, flag,
attribute or variable exchanged, a class that promises more, an inner operation left out. It is
*killed* where a trial finds that it does not hold, *idle* where it acts on nothing that was tried,
and so can do no harm, and else it *survives*: each survivor is in `EQUIVALENT`, with the reason why
it holds, or is a hole in the trials.
"""

import ast
import copy
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mgn.diagnostics import MgnError
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.rules.table import BUILT_IN
from mgn.testing import try_rule
from tests.passes.saturate.rules.examples.rule_examples import example_of

WANTED, MOST = 40, 1200
"""Instances that a mutant has to survive, and how many are drawn to find them."""

STRICTER = {
    RuleClass.APPROXIMATES: (RuleClass.REASSOCIATES,),
    RuleClass.FAST: (RuleClass.REASSOCIATES,),
    RuleClass.SPREADS: (RuleClass.REASSOCIATES,),
    RuleClass.ROUNDS: (RuleClass.REASSOCIATES,),
    RuleClass.REASSOCIATES: (RuleClass.EXACT,),
    RuleClass.EXACT: (),
}
OTHER_OPERATION = {
    "add": "sub", "sub": "add", "mul": "div", "div": "mul", "max": "min", "min": "max",
    "sum": "prod", "prod": "sum", "max_reduce": "min_reduce", "min_reduce": "max_reduce",
    "exp": "expm1", "expm1": "exp", "log": "log1p", "log1p": "log", "sqrt": "rsqrt",
    "rsqrt": "sqrt", "recip": "neg", "sigmoid": "tanh", "tanh": "erf", "erf": "tanh",
    "silu": "gelu", "gelu": "silu", "relu": "abs", "swiglu": "mul", "softmax": "log_softmax",
}  # fmt: skip
OTHER_TEXT = {"none": "tanh", "tanh": "none"}


@dataclass(frozen=True)
class Mutant:
    """A changed row, and what was changed."""

    rule: Rule
    kind: str
    what: str
    place: int = 1
    """Of several places of a row where the same is changed, which one."""

    @property
    def name(self) -> str:
        """`row: what was changed`, and where that is not the only place."""
        again = f", place {self.place}" if self.place > 1 else ""
        return f"{self.rule.name}: {self.what}{again}"


@dataclass(frozen=True)
class Draft:
    """A mutant before its row is made: of all that there are, few are taken."""

    kind: str
    make: Callable[[], Mutant]


def mutants_of(rule: Rule) -> Iterator[Mutant]:
    """All mutants of a row, whether or not they are well formed."""
    return (draft.make() for draft in drafts_of(rule))


def drafts_of(rule: Rule) -> Iterator[Draft]:
    """The same in the same order, each to be made."""
    parts = rule.when.split(" and ") if rule.when else []
    for part in parts:
        kept = " and ".join(item for item in parts if item is not part)
        yield _draft(rule, "condition", f"without {part}", when=kept)
    for stricter in STRICTER[rule.equality]:
        yield _draft(rule, "class", f"as {stricter}", equality=stricter)
    places = Counter[str]()
    for side in ("left", "right"):
        tree = ast.parse(getattr(rule, side), mode="eval").body
        names = sorted({node.id for node in _variables(tree)})
        for node in ast.walk(tree):
            for kind, change in CHANGES.items():
                for number, (what, _) in enumerate(change(node, names)):
                    places[f"{side}, {what}"] += 1
                    change_at = (node, names, kind, number, places[f"{side}, {what}"])
                    yield Draft(kind, partial(_changed, rule, side, tree, *change_at))


def _draft(rule: Rule, kind: str, what: str, **fields: object) -> Draft:
    return Draft(kind, lambda: Mutant(replace(rule, **fields), kind, what))


Change = Callable[[ast.AST, Sequence[str]], Iterator[tuple[str, ast.AST]]]


def _changed(
    rule: Rule,
    side: str,
    tree: ast.AST,
    node: ast.AST,
    names: Sequence[str],
    kind: str,
    at: int,
    again: int,
) -> Mutant:
    """A row with one node of a side changed in one of the ways of a kind."""
    what, new = next(itertools.islice(CHANGES[kind](node, names), at, None))
    place = next(place for place, other in enumerate(ast.walk(tree)) if other is node)
    fresh = copy.deepcopy(tree)
    target = next(itertools.islice(ast.walk(fresh), place, None))
    fresh = _Put(target, copy.deepcopy(new)).visit(fresh)
    return Mutant(replace(rule, **{side: ast.unparse(fresh)}), kind, f"{side}, {what}", again)


class _Put(ast.NodeTransformer):
    """Puts a node in the place of another."""

    def __init__(self, target: ast.AST, new: ast.AST) -> None:
        self.target = target
        self.new = new

    def visit(self, node: ast.AST) -> ast.AST:
        return self.new if node is self.target else self.generic_visit(node)


def _variables(tree: ast.AST) -> list[ast.Name]:
    """The names of values, not of operations, functions or attributes."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return [node for node in names if id(node) not in called and node.id.islower()]


def _swapped(node: ast.AST, names: Sequence[str]) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Call) and len(node.args) >= 2:
        new = copy.copy(node)
        new.args = [node.args[1], node.args[0], *node.args[2:]]
        yield f"operands of {ast.unparse(node)[:60]} swapped", new


def _other_operation(node: ast.AST, names: Sequence[str]) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        other = OTHER_OPERATION.get(node.func.id)
        if other is not None:
            new = copy.copy(node)
            new.func = ast.Name(other)
            yield f"{other} for {ast.unparse(node)[:60]}", new


def _left_out(node: ast.AST, names: Sequence[str]) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name):
        yield f"{ast.unparse(node.args[0])[:40]} for {ast.unparse(node)[:60]}", node.args[0]


def _other_number(node: ast.AST, names: Sequence[str]) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        for value in (-node.value, node.value + 1, node.value * 2, node.value * (1 + 1e-6)):
            if str(value) != str(node.value):
                yield f"{value} for {node.value}", ast.Constant(value)


def _other_flag(node: ast.AST, names: Sequence[str]) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{not node.value} for {node.value}", ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and node.value in OTHER_TEXT:
        yield f"another text for {node.value}", ast.Constant(OTHER_TEXT[str(node.value)])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield f"no not in {ast.unparse(node)}", node.operand


def _other_variable(node: ast.AST, names: Sequence[str]) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Name) and node.id in names and len(names) > 1:
        other = names[(names.index(node.id) + 1) % len(names)]
        yield f"{other} for {node.id}", ast.Name(other)


def _other_attribute(node: ast.AST, names: Sequence[str]) -> Iterator[tuple[str, ast.AST]]:
    if not isinstance(node, ast.Call) or len(node.keywords) < 1:
        return
    for at, keyword in enumerate(node.keywords):
        if keyword.arg in ("axis", "keepdims", "scale", "window", "softcap", "approx", "causal"):
            new = copy.copy(node)
            new.keywords = node.keywords[:at] + node.keywords[at + 1 :]
            yield f"{keyword.arg} left out of {ast.unparse(node)[:60]}", new


CHANGES: dict[str, Change] = {
    "operands": _swapped,
    "operation": _other_operation,
    "left out": _left_out,
    "number": _other_number,
    "flag": _other_flag,
    "variable": _other_variable,
    "attribute": _other_attribute,
}


def well_formed(mutant: Mutant) -> bool:
    """Whether a mutant is a row that could be registered."""
    try:
        mutant.rule.check()
    except MgnError:
        return False
    return True


def sample(count: int, seed: int, rows: Sequence[Rule] = BUILT_IN) -> list[Mutant]:
    """So many mutants, of as many kinds and rows as there are."""
    rng = random.Random(seed)
    by_kind: dict[str, list[Draft]] = {}
    for rule in rows:
        for draft in drafts_of(rule):
            by_kind.setdefault(draft.kind, []).append(draft)
    for drafts in by_kind.values():
        rng.shuffle(drafts)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(by_kind.values()):
        for drafts in by_kind.values():
            made = _next_well_formed(drafts)
            if made is not None and len(chosen) < count:
                chosen.append(made)
    return chosen


def _next_well_formed(drafts: list[Draft]) -> Mutant | None:
    """Takes drafts from the end of a list until one is a row; None where there is none left."""
    while drafts:
        made = drafts.pop().make()
        if well_formed(made):
            return made
    return None


def fate_of(mutant: Mutant) -> str:
    """`killed`, `idle` or `survives`."""
    try:
        trial = try_rule(mutant.rule, WANTED, MOST, examples=example_of)
    except MgnError:
        return "killed"
    if not trial.acted:
        return "idle"
    return "survives" if trial.passes else "killed"
