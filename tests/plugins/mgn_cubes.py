"""A plugin as a package of its own has it: an operation, a rule that finds it, a pass that counts.

In: nothing. Out: after `register()`, `cubed(x)` in the language, the rule `cubes`, and the pass
`count-cubes`, which writes how many cubes a module has as its attribute.
"""

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.passes import ModulePass

import mgn
from mgn.dialects.mgn.user_operations import operation
from mgn.passes.saturate import Rule, RuleClass, register_rule


@dataclass(frozen=True)
class CountCubes(ModulePass):
    """Writes the number of cubes as an attribute of the module."""

    name = "count-cubes"

    label: str = "cubes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        found = sum(item.name == "mgn.cubed" for item in op.walk())
        op.attributes[self.label] = IntegerAttr(found, 64)


def cubed(b: Any, x: Any) -> Any:
    """`y = cubed(x)`: x³."""
    return b.mul(b.mul(x, x), x)


def register() -> None:
    """What the entry point calls."""
    operation("cubed", ("x",), elementwise=True)(cubed)
    register_rule(Rule("cubes", "mul(mul(x, x), x)", "cubed(x)", RuleClass.EXACT, "the definition"))
    mgn.register_pass(CountCubes)
