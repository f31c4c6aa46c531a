"""`saturate`: the e-graph decides every rewrite and every kernel boundary.

`saturate_graph` is the function, `Saturate` the pass, `register_rule` the way to add a rule of
one's own, `forget_rule` to take it back. Names are imported when they are first used: a report of
what was done needs no e-graph.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mgn.passes.saturate.extraction.report import SaturateReport as SaturateReport
    from mgn.passes.saturate.options import SaturateOptions as SaturateOptions
    from mgn.passes.saturate.rules.patterns import PatternError as PatternError
    from mgn.passes.saturate.rules.rule import Rule as Rule
    from mgn.passes.saturate.rules.rule import RuleClass as RuleClass
    from mgn.passes.saturate.rules.rule import RuleError as RuleError
    from mgn.passes.saturate.rules.table import DEFAULT_CLASSES as DEFAULT_CLASSES
    from mgn.passes.saturate.rules.table import forget_rule as forget_rule
    from mgn.passes.saturate.rules.table import register_rule as register_rule
    from mgn.passes.saturate.saturate import Saturate as Saturate
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
    "DEFAULT_CLASSES": "rules.table",
    "PatternError": "rules.patterns",
    "Rule": "rules.rule",
    "RuleClass": "rules.rule",
    "RuleError": "rules.rule",
    "Saturate": "saturate",
    "SaturateOptions": "options",
    "SaturateReport": "extraction.report",
    "forget_rule": "rules.table",
    "register_rule": "rules.table",
    "saturate_graph": "saturate",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
