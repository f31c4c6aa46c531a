"""`saturate`: the e-graph decides every rewrite and every kernel boundary.

`saturate_graph` is the function, `Saturate` the pass, `register_rule` the way to add a rule of
one's own, `forget_rule` to take it back. Names are imported when they are first used: a report of
what was done needs no e-graph.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgn.passes.saturate.patterns import PatternError as PatternError
    from mgn.passes.saturate.report import SaturateReport as SaturateReport
    from mgn.passes.saturate.rule import Rule as Rule
    from mgn.passes.saturate.rule import RuleClass as RuleClass
    from mgn.passes.saturate.rule import RuleError as RuleError
    from mgn.passes.saturate.rules import DEFAULT_CLASSES as DEFAULT_CLASSES
    from mgn.passes.saturate.rules import forget_rule as forget_rule
    from mgn.passes.saturate.rules import register_rule as register_rule
    from mgn.passes.saturate.saturate import Saturate as Saturate
    from mgn.passes.saturate.saturate import SaturateOptions as SaturateOptions
    from mgn.passes.saturate.saturate import saturate_graph as saturate_graph

__all__ = [
    "DEFAULT_CLASSES",
    "PatternError",
    "Rule",
    "RuleClass",
    "RuleError",
    "Saturate",
    "SaturateOptions",
    "SaturateReport",
    "forget_rule",
    "register_rule",
    "saturate_graph",
]

_HOMES = {
    "DEFAULT_CLASSES": "rules",
    "PatternError": "patterns",
    "Rule": "rule",
    "RuleClass": "rule",
    "RuleError": "rule",
    "Saturate": "saturate",
    "SaturateOptions": "saturate",
    "SaturateReport": "report",
    "forget_rule": "rules",
    "register_rule": "rules",
    "saturate_graph": "saturate",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
