"""Rows of the rule table: rows that are sorted at once, where a group of a GPU holds one."""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

POSITIONS = "broadcast_to(iota(shape=line_of(x, A), axis=A, T=position_type()), shape=shape_of(x))"

ORDERS: tuple[Rule, ...] = (
    Rule(
        "sort-at-once",
        "sort(x, axis=A, descending=D)",
        "sort_runs(x, x, axis=A, descending=D)",
        RuleClass.EXACT,
        "a row is one run",
        "is_run(x, A)",
    ),
    Rule(
        "argsort-at-once",
        "argsort(x, axis=A, descending=D)",
        f"sort_runs(x, {POSITIONS}, axis=A, descending=D)",
        RuleClass.EXACT,
        "a row is one run, and its positions are in the order of its keys",
        "is_run(x, A)",
    ),
)
