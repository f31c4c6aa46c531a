"""The lists that `mgn-opt` prints: passes, dialects and targets.

In: the tables of `mgn.pipelines`, `mgn.dialect_table` and `mgn.commands.targets`. Out: text.
"""

from collections.abc import Callable


def passes() -> str:
    """Every pass with its options, and every pipeline with its passes."""
    from mgn.pipelines import PASSES, PIPELINES, describe_passes

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
    from mgn.dialect_table import DIALECTS, load_dialect

    lines: list[str] = []
    for name, (module, _) in DIALECTS.items():
        count = len(list(load_dialect(name).operations))
        lines.append(f"{name:<10}{count:>4} operations  {module}")
    return "\n".join(lines) + "\n"


def targets() -> str:
    """Every target with its summary."""
    from mgn.commands.targets import TARGETS

    return "".join(f"{name:<14}{target.summary}\n" for name, target in TARGETS.items())


LISTS: dict[str, Callable[[], str]] = {
    "passes": passes,
    "dialects": dialects,
    "targets": targets,
}
