"""Where the work-items of a kernel stand while resident work-groups run it as a stage.

In: a `kernel.func` and the work-items of a resident group. Out: the C text of every place that the
kernel asks for, of its barriers, of its local memory and of its wait for earlier stages.

A resident group has room for `blocks` work-groups of the kernel at a time. In the text, `unit` is
the number of the kernel's work-group, and `block` that of the place in the resident group. `item`
is the work-item's number in the block, and `memory` the local memory of all stages. `all` is how
many arrivals a stage still has to wait for, or 0.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from xdsl.ir import Operation

from mgn.codegen.device_barrier import ALL_ITEMS, POLL
from mgn.codegen.opencl.expression import MULTIPLY, Expression, infix
from mgn.dialects import kernel
from mgn.dialects.kernel.residency import WARP, local_arrays, local_bytes, read_early


@dataclass
class StagePlaces:
    """The places of one kernel as a stage of groups of `items` on a vendor's device."""

    func: kernel.FuncOp
    items: int
    blocks: int
    vendor: str

    @property
    def is_whole(self) -> bool:
        """Whether a resident group runs one work-group of the kernel, with all of its items."""
        return prod(self.func.local_sizes) == self.items

    @property
    def leaves_items(self) -> bool:
        """Whether items of a resident group have no work-group of the kernel."""
        return self.blocks * prod(self.func.local_sizes) < self.items

    @property
    def units(self) -> int:
        """The kernel's work-groups."""
        return prod(self.func.global_sizes) // prod(self.func.local_sizes)

    def place(self, kind: type[Operation], dimension: int) -> Expression:
        """What stands for `get_global_id(dimension)` and the like."""
        own, all_items = self.func.local_sizes, self.func.global_sizes
        groups = [items // group for items, group in zip(all_items, own, strict=True)]
        if kind is kernel.LocalIdOp:
            return _digit("item", own, dimension)
        if kind is kernel.GroupIdOp:
            return _digit("unit", groups, dimension)
        if kind is kernel.GlobalIdOp:
            group, item = _digit("unit", groups, dimension), _digit("item", own, dimension)
            first = infix(group, "*", Expression(str(own[dimension])), MULTIPLY)
            return Expression(f"({first} + {item})")
        counts: dict[type[Operation], tuple[int, ...]] = {
            kernel.GlobalSizeOp: all_items,
            kernel.LocalSizeOp: own,
            kernel.NumGroupsOp: tuple(groups),
        }
        return Expression(str(counts[kind][dimension]))

    def take(self, operation: kernel.LocalAllocOp) -> str:
        """Where an array begins in the local memory."""
        whole = local_bytes(self.func)
        start = dict(local_arrays(self.func))[operation]
        apart = f" + block * {whole}" if self.blocks > 1 else ""
        return f"memory{apart} + {start}" if start else f"memory{apart}"

    @property
    def can_wait_late(self) -> bool:
        """Whether the kernel says where it waits for the stages before it, and can wait there."""
        return self.early is not None

    @cached_property
    def early(self) -> list[int] | None:
        """The numbers of the arguments that the kernel reads before it waits inside. None where it
        cannot wait there.
        """
        whole_warps = prod(self.func.local_sizes) % WARP == 0
        return read_early(self.func) if self.vendor == "nvidia" and whole_warps else None

    def await_lines(self) -> list[str]:
        """The work-items of one work-group wait for the stages before, unless they did."""
        return [
            "if (all) {",
            f"    if (item == 0) {POLL}(arrivals, all);",
            f"    {self.barrier}",
            "    all = 0;",
            "}",
        ]

    @property
    def barrier(self) -> str:
        """The work-items of one work-group of the kernel meet."""
        if self.is_whole:
            return ALL_ITEMS
        assert self.vendor == "nvidia", "a part of a group has no barrier"
        own = prod(self.func.local_sizes)
        return f'asm volatile("bar.sync %0, {own};" :: "r"(1 + block) : "memory");'


def _digit(number: str, sizes: "tuple[int, ...] | list[int]", dimension: int) -> Expression:
    """One digit of a number, the first dimension being the fastest."""
    below, size = prod(sizes[:dimension]), sizes[dimension]
    if size == 1:
        return Expression("0")
    text = number if below == 1 else f"{number} / {below}"
    if any(count > 1 for count in sizes[dimension + 1 :]):
        text = f"{text} % {size}"
    return Expression(text if text == number else f"({text})")
