"""Why mutants of the rule table that no trial refutes hold all the same.

In: a mutated row, the kind of its change and what was changed. Out: the reason, or None.
"""

from mgn.passes.saturate.rule import Rule


def reason_of(rule: Rule, kind: str, what: str) -> str | None:
    """The reason why a mutant holds."""
    return None
