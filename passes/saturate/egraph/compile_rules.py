"""The rows of the rule table as egglog rules: egglog finds the matches, Python builds the right
sides.

In: rules, the vocabulary of facts, the constructors that occur. Out: egglog text, and a
`CompiledRule` for each rule.

Each rule becomes a query and a relation that collects its matches: the classes of the root and the
variables, numbers of constants and attributes. `instantiate.py` then checks the condition, infers
types and enters the right side. Queries do not ask for handles: looking one up for each variable of
each match takes longer than all else that they do.
"""

import ast
from dataclasses import dataclass, field
from typing import Any

from mgn.dialects.mgn.operation import OPERATIONS
from mgn.passes.saturate.encoding.facts import Facts
from mgn.passes.saturate.rules.patterns import (
    Call,
    Number,
    Pattern,
    Variable,
    aliases_of,
    evaluate,
    text_of,
)
from mgn.passes.saturate.rules.rule import Rule, RuleClass

Constructor = tuple[str, int]
"""An operation's name with a number of operands."""

SPLAT_PRESERVING = ("broadcast_to", "reshape", "transpose", "flip", "slice", "windows")
"""Movement that leaves a constant with one value everywhere such a constant."""


ORDERED_ZEROS = ("max", "min")
"""Operations that commute but for the sign of a zero."""


@dataclass(frozen=True)
class CompiledRule:
    """A rule with its relation: columns are the root, the variables, the parts that have names, and
    operands of relative calls, `values` of them, then constants, then attribute numbers.

    `attribute_calls` are the calls of the left side whose attributes the last columns number, and
    `operands` says in which columns those of each are, where its attributes are relative to them;
    `bound` keeps what the attribute variables are for such numbers, None where they do not fit;
    `refused` the types, constants and attributes of matches on which it does not act, whatever the
    values are.
    """

    rule: Rule
    relation: str
    values: int
    attribute_calls: tuple[Call, ...]
    operands: tuple[tuple[int, ...], ...]
    bound: dict[tuple[int, ...], dict[str, Any] | None] = field(
        default_factory=dict[tuple[int, ...], dict[str, Any] | None], compare=False
    )
    refused: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]], compare=False)


def constructor_name(constructor: Constructor) -> str:
    """How egglog knows an operation with a number of operands."""
    return f"{constructor[0]}_{constructor[1]}"


PRELUDE = """
(sort T)
(constructor N (i64) T :unextractable)
(constructor leaf (i64 i64) T)
(function ty (T) i64 :no-merge)
(function handle (T) i64 :merge (min old new))
(function splat (T) i64 :no-merge)
(relation in_leaf (i64 i64 i64))
(relation in_splat (i64 i64))
(relation in_union (i64 i64))
(ruleset load)
(ruleset rewrite)
(rule ((in_leaf h t k)) ((let e (leaf t k)) (union e (N h)) (set (ty e) t) (set (handle e) h))
 :ruleset load :name "load leaf")
(rule ((in_splat h s)) ((set (splat (N h)) s)) :ruleset load :name "load splat")
(rule ((in_union a b)) ((union (N a) (N b))) :ruleset load :name "load union")
"""
"""Sorts, functions and rulesets: all but what operations and rows of the table need."""


def commutes(constructor: Constructor, exact: bool) -> bool:
    """Whether an operation's two operands may change places; with `exact`, to the bit."""
    operation, arity = constructor
    if exact and operation in ORDERED_ZEROS:
        return False
    return OPERATIONS[operation].commutative and arity == 2


def commutations() -> list[Rule]:
    """What holds of operations that commute, as rows."""
    return [
        Rule(
            f"commutes {name}",
            f"{name}(x, y)",
            f"{name}(y, x)",
            RuleClass.EXACT if commutes((name, 2), exact=True) else RuleClass.REASSOCIATES,
            "the order of the operands" + (", but for signs of zeros" * (name in ORDERED_ZEROS)),
        )
        for name in OPERATIONS
        if commutes((name, 2), exact=False)
    ]


def declare(constructor: Constructor, exact: bool = False) -> str:
    """An operation with a number of operands: how it is loaded, and what holds of it always. With
    `exact`, what commutes does so to the bit.
    """
    operation, arity = constructor
    name = constructor_name(constructor)
    operands = [f"x{index}" for index in range(arity)]
    integers, sorts = " i64" * arity, " T" * arity
    handles = " ".join(f"(N {operand})" for operand in operands)
    plain = " ".join(operands)
    lines = [
        f"(constructor {name} (i64 i64{sorts}) T)",
        f"(relation in-{name} (i64 i64 i64{integers}))",
        f"(rule ((in-{name} h a t {plain})) ((let e ({name} a t {handles})) (union e (N h))"
        f' (set (ty e) t) (set (handle e) h)) :ruleset load :name "load {name}")',
    ]
    if commutes(constructor, exact):
        lines.append(
            f"(rule ((= e ({name} a t x y))) ((union e ({name} a t y x)))"
            f' :ruleset rewrite :name "commutes {operation}")'
        )
    if operation in SPLAT_PRESERVING and arity == 1:
        lines.append(
            f"(rule ((= e ({name} a t x)) (= s (splat x))) ((set (splat e) s))"
            f' :ruleset rewrite :name "splat {operation}")'
        )
    return "\n".join(lines)


def compile_rule(rule: Rule, number: int, facts: Facts) -> tuple[CompiledRule, str]:
    """A rule's relation and the egglog text that fills it."""
    atoms: list[str] = []
    attribute_calls: list[Call] = []
    operand_names: list[list[str]] = []
    named: dict[str, str] = {}

    def visit(pattern: Pattern, root: str) -> None:
        assert isinstance(pattern, Call)
        operands: list[str] = []
        deferred: list[tuple[Pattern, str]] = []
        for operand in pattern.operands:
            if isinstance(operand, Variable):
                operands.append(f"v_{operand.name}")
                continue
            text = text_of(operand)
            if text not in named:
                named[text] = f"n{len(named) + 1}"
                deferred.append((operand, named[text]))
            operands.append(named[text])
        if OPERATIONS[pattern.name].attributes:
            attribute = f"a{len(attribute_calls)}"
            attribute_calls.append(pattern)
            operand_names.append(operands if is_relative(pattern) else [])
        else:
            attribute = f"u_{root}"
        name = constructor_name((pattern.name, len(pattern.operands)))
        atoms.append(f"(= {root} ({name} {attribute} t_{root} {' '.join(operands)}))")
        for operand, variable in deferred:
            if isinstance(operand, Number):
                atoms.append(f"(= {facts.splat_of_literal(operand.value)} (splat {variable}))")
            else:
                visit(operand, variable)

    visit(rule.left_pattern, "root")
    values = ["root", *(f"v_{name}" for name in rule.variables)]
    values += [named[text_of(part)] for part in aliases_of(rule.left_pattern).values()]
    values += dict.fromkeys(name for names in operand_names for name in names if name not in values)
    columns, sorts = list(values), ["T"] * len(values)
    for name in rule.constants:
        atoms.append(f"(= s_{name} (splat v_{name}))")
        columns.append(f"s_{name}")
    columns += [f"a{index}" for index in range(len(attribute_calls))]
    sorts += ["i64"] * (len(columns) - len(values))
    relation = f"match-{number}"
    text = "\n".join(
        [
            f"; {rule.name}: {text_of(rule.left_pattern)} => {text_of(rule.right_pattern)}",
            f"(relation {relation} ({' '.join(sorts)}))",
            f"(rule ({' '.join(atoms)}) (({relation} {' '.join(columns)}))"
            f' :ruleset rewrite :name "{rule.name}")',
        ]
    )
    places = tuple(tuple(map(values.index, names)) for names in operand_names)
    return CompiledRule(rule, relation, len(values), tuple(attribute_calls), places), text


def is_relative(call: Call) -> bool:
    """Whether what a call's attributes are to be depends on its operands, as axes that are counted
    from the back, or all of them.
    """
    spec = OPERATIONS[call.name]
    if spec.canonical is None:
        return False
    for item in spec.attributes:
        written = call.attributes.get(item.name)
        if not isinstance(written, ast.Name):
            value = item.default if written is None else evaluate(written, {}, {})
            parts = value if isinstance(value, tuple) else (value,)
            if any(part is None or (type(part) is int and part < 0) for part in parts):
                return True
    return False
