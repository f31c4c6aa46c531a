"""The lists that `mgn-opt` prints: passes, dialects, targets, and the tables of rewrite rules.

In: the tables of `mgn.driver.pipelines`, `mgn.modules.dialect_table`,
`mgn.commands.printing.targets` and of `mgn.passes.saturate`. Out: text.
"""

from collections.abc import Callable


def passes() -> str:
    """Every pass with its options, and every pipeline with its passes."""
    from mgn.driver.pipelines import PASSES, PIPELINES, describe_passes

    width = max(map(len, [*PASSES, *PIPELINES])) + 2
    lines = ["passes:"]
    for name, summary, options in describe_passes():
        lines.append(f"  {name:<{width}}{summary}")
        lines.extend(f"  {'':<{width}}  {{{option}}}" for option in options)
    lines.append("pipelines:")
    lines.extend(f"  {name:<{width}}{','.join(steps)}" for name, steps in PIPELINES.items())
    return "\n".join(lines) + "\n"


def dialects() -> str:
    """Every dialect with the number of its operations."""
    from mgn.modules.dialect_table import DIALECTS, load_dialect

    lines: list[str] = []
    for name, (module, _) in DIALECTS.items():
        count = len(list(load_dialect(name).operations))
        lines.append(f"{name:<10}{count:>4} operations  {module}")
    return "\n".join(lines) + "\n"


def targets() -> str:
    """Every target with its summary."""
    from mgn.commands.printing.targets import TARGETS

    return "".join(f"{name:<14}{target.summary}\n" for name, target in TARGETS.items())


def rules() -> str:
    """Every rewrite rule: its name and class, how it was tried, both sides, its condition, and why
    it holds.
    """
    from mgn.passes.saturate.egraph.compile_rules import commutations
    from mgn.passes.saturate.egraph.wide_products import WIDE_PRODUCTS
    from mgn.passes.saturate.rules.table import RULES
    from mgn.testing.evidence import evidence_of

    lines: list[str] = []
    for rule in (*commutations(), *RULES.values(), *WIDE_PRODUCTS):
        when = f" when {rule.when}" if rule.when else ""
        lines += [
            f"{rule.name} ({rule.equality}, {evidence_of(rule)}): {rule.reason}",
            f"  {rule.left} ⟶ {rule.right}{when}",
        ]
    return "\n".join(lines) + "\n"


def predicates() -> str:
    """What the condition of a rule can ask of a match."""
    from mgn.passes.saturate.rules.conditions import PREDICATES

    calls = {f"{name}{row.arguments}": row.says for name, row in PREDICATES.items()}
    return "".join(f"{call}: {says}\n" for call, says in calls.items())


LISTS: dict[str, Callable[[], str]] = {
    "passes": passes,
    "dialects": dialects,
    "targets": targets,
    "rules": rules,
    "predicates": predicates,
}
