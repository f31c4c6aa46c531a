"""`python -m tests.rule_evidence`: what of mgn's own rules is proved, and of what all is tried.

Prints the two tables of `mgn/testing/evidence.py`, each row as it is found.
"""

from mgn.passes.saturate.egraph.compile_rules import commutations
from mgn.passes.saturate.rules.table import BUILT_IN
from mgn.testing.exhaustion import exhausted
from mgn.testing.proofs import proved


def main() -> None:
    """Prints the tables' rows."""
    for rule in (*commutations(), *BUILT_IN):
        types, refuted = proved(rule)
        assert not refuted, f"{rule.name} does not hold"
        if types:
            print(f'PROVED    "{rule.name}": "{" ".join(types)}",', flush=True)
    for rule in BUILT_IN:
        types, difference = exhausted(rule)
        assert difference is None, f"{rule.name} does not hold"
        if types:
            print(f'EXHAUSTED "{rule.name}": "{" ".join(types)}",', flush=True)


if __name__ == "__main__":
    main()
