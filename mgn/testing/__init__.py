"""Trials of rewrite rules, for mgn's own and for those of a user.

`check_rule` raises `UnsoundRule` where the sides of a rule differ, with an instance on which they
do; `try_rule` gives a `Trial`, which says on how many instances the rule acted.
"""

from mgn.testing.trials import Trial, UnsoundRule, check_rule, try_rule

__all__ = ["Trial", "UnsoundRule", "check_rule", "try_rule"]
