"""Rows of the rule table: products of one-hot rows, which are rows of a table.

A product with a row that is 1 at its id and 0 elsewhere is the row of the table there, or zeros
where the id is outside.
"""

from mgn.passes.saturate.rules.rule import Rule, RuleClass

INSIDE = "reshape(eq(clamp(i, min=0, max=last_row(w, {turned})), i), shape=as_column(i))"


def _row(name: str, turned: bool) -> Rule:
    table = "transpose(w, perm=(1, 0))" if turned else "w"
    right = f"where({INSIDE.format(turned=turned)}, gather({table}, i, axis=0), 0)"
    return Rule(
        name,
        f"matmul(one_hot(i, classes=C, T=E), w, transpose_b={turned})",
        right,
        RuleClass.REASSOCIATES,
        "all terms but one are 0",
        f"is_table_of(w, i, {turned})",
    )


ONE_HOT: tuple[Rule, ...] = (
    Rule(
        "reshaped-one-hot-rows",
        "reshape(one_hot(i, classes=C, T=E), shape=S)",
        "one_hot(reshape(i, shape=outer(S)), classes=C, T=E)",
        RuleClass.EXACT,
        "rows stay rows",
        "ends_with(S, C)",
    ),
    _row("product-with-one-hot-rows", False),
    _row("product-with-one-hot-rows-turned", True),
)
