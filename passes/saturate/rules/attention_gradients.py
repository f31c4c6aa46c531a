"""Rows of the rule table: attention's gradient of keys that several heads share."""

from mgn.passes.saturate.rules.attention import SCORING
from mgn.passes.saturate.rules.layouts import FEW_HEADS
from mgn.passes.saturate.rules.rule import Rule, RuleClass

REASSOCIATES = RuleClass.REASSOCIATES


def _keys_of_each(count: int) -> Rule:
    """The gradient of keys that several heads share, as a sum over these: of so many, or of more
    than a few where that is 0.

    More groups walk fewer queries each: where keys are few, others would be idle.
    """
    parts = {
        x: f"reshape(transpose(reshape({x}, shape=in_groups({x}, X, Y)), "
        f"perm=groups_outward({x}, X, Y)), shape=each_of_group({x}, X, Y))"
        for x in "qglo"
    }
    operands = ", ".join(parts.get(x, x) for x in "qkvglo")
    each = f"attention_key_gradient({operands}, heads=Y, kv_heads=Y, {SCORING})"
    found = f"sum({each}, axis=[0])"
    if count:
        taken = [
            f"reshape(slice({each}, starts=line_start(SHAPE, {n}), stops=line_stop(SHAPE, {n}), "
            "steps=line_steps(SHAPE)), shape=SHAPE)"
            for n in range(count)
        ]
        found = taken[0]
        for other in taken[1:]:
            found = f"add({found}, {other})"
    return Rule(
        "gradient-of-shared-keys" + (f"-of-{count}" if count else ""),
        f"attention_key_gradient(q, k, v, g, l, o, heads=X, kv_heads=Y, {SCORING})",
        found,
        REASSOCIATES,
        "the gradient of what is broadcast is a sum",
        f"keys_shared_by(X, Y, {count})",
    )


ATTENTION_GRADIENTS: tuple[Rule, ...] = tuple(_keys_of_each(count) for count in (0, *FEW_HEADS))
