"""One launch of several kernels: resident work-groups that walk its stages.

In: launches that a pass has put together. Out: operations that stand where the launches stood.

    plan.resident @forward_resident_0 items 256 {
      plan.launch @project(%x, %w, %q)
      plan.launch @project(%x, %v, %k)
      plan.barrier
      plan.launch @attend(%q, %k, %y)
    }

The launches inside are *stages*. As many work-groups of `items` work-items run as the device holds
at once. Each walks all stages in order, and does its share of a stage's work-groups. Stages between
two barriers are a *span*: nothing orders them, so none of them may write what another one reads or
writes. A barrier is one of the whole device: what stages before it wrote is there for the stages
behind it. `plan.launch @norm(%x, %n) {everywhere}` is a stage that each group does for itself, so
that the next one needs no barrier.
"""

from collections.abc import Iterator, Sequence

from xdsl.dialects.builtin import (
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolNameConstraint,
    i64,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, NoTerminator
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.plan.buffers import ArenaProgram, ViewOp
from mgn.dialects.plan.states import NextOp
from mgn.dialects.plan.steps import LaunchOp, StageHolder

EVERYWHERE = "everywhere"
"""The attribute of a stage that each work-group does for itself, as a whole: all write the same. A
later stage of the span may read what it writes; it reads nothing that it writes itself.
"""


@irdl_op_definition
class ResidentOp(StageHolder):
    """Launches as the stages of one: `plan.resident @r items 256 { … }`.

    Errors: another operation than `plan.launch` and `plan.barrier` inside; no launch; a barrier
    that stands first, last or behind another; `items` that are not positive. `plan.program` refuses
    stages of one span that touch the same bytes, of which one writes them.
    """

    name = "plan.resident"
    sym_name = prop_def(SymbolNameConstraint())
    items = prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(HasParent(ArenaProgram), NoTerminator())

    def __init__(self, name: str, items: int, body: Region | Sequence[Operation] = ()) -> None:
        region = body if isinstance(body, Region) else Region(Block(list(body)))
        super().__init__(
            properties={"sym_name": StringAttr(name), "items": IntegerAttr(items, i64)},
            regions=[region],
        )

    @property
    def group_items(self) -> int:
        """Work-items of a resident work-group."""
        return self.items.value.data

    @property
    def stages(self) -> Iterator[LaunchOp]:
        """The launches, in order."""
        for op in self.body.block.ops:
            if isinstance(op, LaunchOp):
                yield op

    @property
    def spans(self) -> list[list[LaunchOp]]:
        """The stages between barriers."""
        spans: list[list[LaunchOp]] = [[]]
        for op in self.body.block.ops:
            if isinstance(op, LaunchOp):
                spans[-1].append(op)
            else:
                spans.append([])
        return spans

    @property
    def saved_seconds(self) -> float:
        """What the launch saves by the prices of the pass that made it; 0 where it says nothing."""
        value = self.attributes.get("saved_seconds")
        return value.value.data if isinstance(value, FloatAttr) else 0.0

    @property
    def arguments(self) -> list[SSAValue]:
        """What the launch is given: each place in memory once, in the order of its first use."""
        found: dict[object, SSAValue] = {}
        for stage in self.stages:
            for value in stage.arguments:
                found.setdefault(place_of(value), value)
        return list(found.values())

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        printer.print_string(f" items {self.group_items}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body)

    @classmethod
    def parse(cls, parser: Parser) -> "ResidentOp":
        name = parser.parse_symbol_name().data
        parser.parse_keyword("items")
        items = parser.parse_integer(allow_boolean=False)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        op = cls(name, items, parser.parse_region())
        if attributes is not None:
            op.attributes.update(attributes.data)
        return op

    def verify_(self) -> None:
        if self.group_items < 1:
            raise VerifyException("plan.resident: items must be positive")
        for op in self.body.block.ops:
            if not isinstance(op, LaunchOp | BarrierOp):
                raise VerifyException(f"plan.resident: {op.name} does not belong here")
        if not all(self.spans):
            raise VerifyException("plan.resident: a barrier stands between launches")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All resident work-groups meet, and see what each has written: `plan.barrier`."""

    name = "plan.barrier"
    traits = traits_def(HasParent(ResidentOp))
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


def place_of(value: SSAValue) -> object:
    """Equal for buffers of one type that lie in the same place."""
    owner = value.owner
    if isinstance(owner, NextOp):
        return owner.state
    if isinstance(owner, ViewOp):
        return owner.start, value.type
    return value
