"""How each of mgn's own rules was tried: the tables that `mgn-opt --list-rules` reads.

In: a rule. Out: `proved`, `exhausted`, `tried` or `not tried`. `python -m tests.rule_evidence`
prints the tables; a test proves and exhausts each of their rows again.
"""

from mgn.passes.saturate.egraph.compile_rules import commutations
from mgn.passes.saturate.egraph.wide_products import WIDE_PRODUCTS
from mgn.passes.saturate.rules.rule import Rule
from mgn.passes.saturate.rules.table import BUILT_IN, TRIED

PROVED: dict[str, str] = {
    "commutes add": "f16 f32 i8 i32 u8 u32",
    "commutes mul": "f16 f32 i8 i32 u8 u32",
    "commutes logical_and": "bool",
    "commutes logical_or": "bool",
    "commutes eq": "f16 f32 i8 i32 u8 u32",
    "commutes ne": "f16 f32 i8 i32 u8 u32",
    "identity": "f16 f32 i8 i32 u8 u32",
    "stop-gradient": "f16 f32 i8 i32 u8 u32",
    "add-minus-zero": "f16 f32",
    "sub-zero": "f16 f32 i8 i32 u8 u32",
    "mul-one": "f16 f32 i8 i32 u8 u32",
    "div-one": "f16 f32 i8 i32 u8 u32",
    "mul-minus-one": "f16 f32 i8 i32",
    "neg-neg": "f16 f32 i8 i32 u8 u32",
    "add-neg": "f16 f32 i8 i32 u8 u32",
    "sub-neg": "f16 f32 i8 i32 u8 u32",
    "mul-neg-neg": "f16 f32 i8 i32 u8 u32",
    "neg-times-constant": "f16 f32 i8 i32 u8 u32",
    "neg-over-constant": "f16",
    "abs-neg": "f16 f32 i8 i32",
    "abs-abs": "f16 f32 i8 i32 u8 u32",
    "abs-times-abs": "f16 f32 i8 i32 u8 u32",
    "not-not": "bool",
    "max-same": "f16 f32 i8 i32 u8 u32",
    "min-same": "f16 f32 i8 i32 u8 u32",
    "one-over": "f16 f32",
    "recip-sqrt": "f32",
    "round-round": "f32",
    "relu": "f16 f32 i8 i32 u8 u32",
    "sigmoid": "f32",
    "silu": "f32",
    "swiglu": "f32",
    "geglu": "f32",
    "gelu": "f32",
    "gelu-tanh": "f32",
}
"""Exact rows of which Z3 shows that both sides have the same bits for all operands: the element
types, all others being alike.
"""

EXHAUSTED: dict[str, str] = {
    "identity": "f16 bf16 i8 u8 i16 u16",
    "stop-gradient": "f16 bf16 i8 u8 i16 u16",
    "same-cast": "f16 bf16 i8 u8 i16 u16",
    "add-zero": "f16 bf16 i8 u8 i16 u16",
    "add-minus-zero": "f16 bf16",
    "sub-zero": "f16 bf16 i8 u8 i16 u16",
    "mul-one": "f16 bf16 i8 u8 i16 u16",
    "div-one": "f16 bf16 i8 u8 i16 u16",
    "pow-one": "f16 bf16 i8 u8 i16 u16",
    "zero-sub": "f16 bf16 i8 u8 i16 u16",
    "mul-minus-one": "f16 bf16 i8 i16",
    "neg-neg": "f16 bf16 i8 u8 i16 u16",
    "add-neg": "i8 u8",
    "sub-neg": "i8 u8",
    "mul-neg-neg": "i8 u8",
    "neg-times-constant": "f16 bf16 i8 u8 i16 u16",
    "neg-over-constant": "f16 bf16",
    "abs-neg": "f16 bf16 i8 i16",
    "abs-abs": "f16 bf16 i8 u8 i16 u16",
    "abs-times-abs": "f16 bf16 i8 u8 i16 u16",
    "max-same": "f16 bf16 i8 u8 i16 u16",
    "min-same": "f16 bf16 i8 u8 i16 u16",
    "div-power-of-two": "f16 bf16",
    "square": "f16 bf16 i8 u8 i16 u16",
    "half-power": "f16 bf16",
    "power-minus-one": "f16 bf16",
    "one-over": "f16 bf16",
    "cast-cast": "f16 bf16 i8 u8 i16 u16",
    "round-round": "f16 bf16",
}
"""Rows that were tried on every value, or on every pair of values, of these element types."""


def evidence_of(rule: Rule) -> str:
    """The most that is known of a rule."""
    if rule not in (*commutations(), *BUILT_IN, *WIDE_PRODUCTS):
        return "tried" if rule in TRIED else "not tried"
    if rule.name in PROVED:
        return "proved"
    return "exhausted" if rule.name in EXHAUSTED else "tried"
