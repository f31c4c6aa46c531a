"""What was before a part of a row that is scanned: nothing, what is read, or the totals before."""

from xdsl.ir import SSAValue

from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.rows import RowSpace
from mgn.passes.lower_kernels.core.evaluate import Evaluator
from mgn.passes.lower_kernels.core.scalar import cast, combine, start_of


def has_totals(scan: Node) -> bool:
    """Whether a scan is told what each part comes to."""
    return bool(scan.values.get("totals"))


def given_for_part(
    evaluator: Evaluator, scan: Node, space: RowSpace, row: Index, number: Index
) -> SSAValue:
    """What a scan is told of a part, in the type that sums are kept in."""
    node = scan.operands[1]
    index = RowSpace(node.shape, space.reduced).full_index(row, number)
    value = evaluator.lanes_at(node, index)
    return cast(evaluator.code, value, node.element, accumulator(scan.element))


def before_part(
    evaluator: Evaluator, scan: Node, space: RowSpace, row: Index, number: Index
) -> SSAValue | None:
    """What the elements before a part come to, as a work-item finds it by itself."""
    if len(scan.operands) == 1:
        return None
    if not has_totals(scan):
        return given_for_part(evaluator, scan, space, row, number)
    code = evaluator.code

    def add(turn: Index, held: list[SSAValue]) -> list[SSAValue]:
        part = given_for_part(evaluator, scan, space, row, turn)
        return [combine(code, scan.name, scan.element, held[0], part)]

    return code.loop(0, number, add, [start_of(code, scan, evaluator.lanes)])[0]
