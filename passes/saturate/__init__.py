"""`saturate`: the e-graph decides every rewrite and every kernel boundary.

`saturate_graph` is the function, `Saturate` the pass, `register_rule` the way to add a rule of
one's own.
"""

from mgn.passes.saturate.report import SaturateReport as SaturateReport
from mgn.passes.saturate.rule import Rule as Rule
from mgn.passes.saturate.rule import RuleClass as RuleClass
from mgn.passes.saturate.rules import DEFAULT_CLASSES as DEFAULT_CLASSES
from mgn.passes.saturate.rules import register_rule as register_rule
from mgn.passes.saturate.saturate import Saturate as Saturate
from mgn.passes.saturate.saturate import SaturateOptions as SaturateOptions
from mgn.passes.saturate.saturate import saturate_graph as saturate_graph
