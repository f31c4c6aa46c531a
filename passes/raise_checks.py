"""raise-checks: what operations are asked to check becomes results of their graph.

Before:
    mgn.graph @g("x" = %x: tensor<4x10xf32>, "y" = %y: tensor<4xi32>) -> ("loss" : tensor<f32>) {
      %loss = mgn.cross_entropy(%x, %y) check = true : …
      mgn.return %loss : tensor<f32>
    }
After:
    mgn.graph @g("x" = %x: tensor<4x10xf32>, "y" = %y: tensor<4xi32>)
        -> ("loss" : tensor<f32>, "mgn.check 0 cross_entropy() has ids that …" : tensor<i32>) {
      %0 = …
      %1 = mgn.sum(%0) axis = [0] : (tensor<4xi32>) -> tensor<i32>
      %loss = mgn.cross_entropy(%x, %y) : …
      mgn.return %loss, %1 : tensor<f32>, tensor<i32>
    }

The result counts the ids that are wrong. The runtime takes it out of the results, and fails the run
where it is not 0, before states are written. This comes first, so that a check stays
where only a gradient of the loss is asked for. A graph without checks stays as it is.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from mgn.dialects.checks import check_name, is_check
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.checks import Checked, checked_ids
from mgn.dialects.mgn.composite import element_type_of
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import GraphOp, ReturnOp, graphs_of
from mgn.dialects.places import text_place
from mgn.dialects.types import counting_type
from mgn.passes.rewriting import emitter_before


@dataclass(frozen=True)
class RaiseChecks(ModulePass):
    """Raises the checks of all graphs of a module."""

    name = "raise-checks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in graphs_of(op):
            raise_checks(graph)


def raise_checks(graph: GraphOp) -> None:
    """Raises the checks of one graph, in place."""
    number = sum(map(is_check, graph.result_names))
    found: dict[str, SSAValue] = {}
    for op in list(graph.block.ops):
        checked = checked_ids(op)
        if checked is None:
            continue
        assert isinstance(op, TensorOp)
        name = check_name(number + len(found), f"{_place(op)}{checked.message}")
        found[name] = _count(emitter_before(op), checked)
        kind = op.spec.attribute("check").kind
        op.properties["check"] = kind.encode(False)
    if found:
        _return(graph, found)


def _count(b: Emitter, checked: Checked) -> SSAValue:
    """How many ids are wrong."""
    ids = checked.ids
    given = b.cast(ids, counting_type(checked.classes, element_type_of(ids)))
    wrong = b.logical_or(b.lt(given, 0), b.ge(given, checked.classes))
    if checked.ignored is not None:
        wrong = b.logical_and(wrong, b.ne(ids, checked.ignored))
    return b.sum(b.cast(wrong, "i32"))


def _place(op: Operation) -> str:
    place = text_place(op.location)
    if place is None:
        return ""
    return f"{place.filename.data}:{place.line.data}:{place.column.data}: "


def _return(graph: GraphOp, found: dict[str, SSAValue]) -> None:
    """Returns more results, behind those that there are."""
    before, count = graph.return_op, len(graph.result_names)
    values = [*before.operands[:count], *found.values(), *before.operands[count:]]
    after = ReturnOp(values)
    after.location = before.location
    Rewriter.erase_op(before)
    graph.block.add_op(after)
    names = [*graph.result_names, *found]
    graph.properties["outputs"] = ArrayAttr([StringAttr(name) for name in names])
