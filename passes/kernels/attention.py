"""An attention node as schedules see it: its sizes and index maps.

In: a body with one attention. Out: its `AttentionSizes`.

Query heads that share keys are taken together: *row* r of a key head is query r // group of its
head r % group, so that a tile of keys serves them all.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Self

from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion.forms import ATTENTION_PARTS, HELD_WHOLE
from mgn.dialects.types import ElementType
from mgn.passes.kernels.accumulation import accumulator
from mgn.passes.kernels.body import Body, Indices, Node
from mgn.passes.kernels.index import Index, constant, delinearised


@dataclass(frozen=True)
class AttentionSizes:
    """The sizes of an attention node; `depth` is a head's size in q and k, `width` in v."""

    node: Node

    @classmethod
    def of_body(cls, body: Body) -> Self:
        (node,) = [node for node in body.nodes if node.name in HELD_WHOLE["attention"]]
        return cls(node)

    @property
    def in_parts(self) -> bool:
        """Whether it computes parts of the keys, whose sums are not divided by totals."""
        return self.node.name == ATTENTION_PARTS

    @property
    def parts(self) -> int:
        return self.node.shape[0] if self.in_parts else 1

    @property
    def part_keys(self) -> int:
        """The keys of a part."""
        return self.node.values["each"] if self.in_parts else self.keys

    @property
    def element(self) -> ElementType:
        """The type that scores and sums are computed in."""
        return accumulator(self.node.element)

    @property
    def batch(self) -> tuple[int, ...]:
        return self.node.shape[1:-3] if self.in_parts else self.node.shape[:-2]

    @cached_property
    def heads(self) -> int:
        return self.node.values["heads"]

    @cached_property
    def kv_heads(self) -> int:
        return self.node.values["kv_heads"]

    @property
    def group(self) -> int:
        """Query heads that share a key head."""
        return self.heads // self.kv_heads

    @property
    def queries(self) -> int:
        return self.node.shape[-3 if self.in_parts else -2]

    @property
    def rows(self) -> int:
        """Queries of a key head."""
        return self.queries * self.group

    @property
    def keys(self) -> int:
        return self.node.operands[1].shape[-2]

    @property
    def depth(self) -> int:
        return self.node.operands[0].shape[-1] // self.heads

    @property
    def width(self) -> int:
        return self.node.shape[-1] - 2 if self.in_parts else self.node.shape[-1] // self.heads

    @cached_property
    def causal(self) -> bool:
        return bool(self.node.values["causal"])

    @cached_property
    def window(self) -> int:
        return self.node.values["window"]

    @cached_property
    def softcap(self) -> float:
        return self.node.values["softcap"]

    @cached_property
    def rounded_weights(self) -> bool:
        """Whether weights are rounded to bf16 before values are multiplied by them."""
        return self.node.values["rounded_weights"]

    @property
    def bias(self) -> Node | None:
        operands = self.node.operands
        return operands[3] if len(operands) > 3 else None

    @property
    def hides(self) -> bool:
        """Whether a query may not see all keys."""
        return self.bias is not None or self.window > 0 or (self.causal and self.queries > 1)

    @property
    def may_be_blind(self) -> bool:
        """Whether a query may see no key, and then gives 0. Where none may, a query without a
        finite score gives nan.
        """
        return self.bias is not None or (self.causal and self.queries > self.keys)

    # Groups

    @property
    def groups(self) -> int:
        """Key heads of all batches and parts."""
        return self.kv_heads * prod(self.batch) * self.parts

    def place(self, number: Index) -> tuple[Index, Indices, Index]:
        """Part, batch and key head of a number below `groups`."""
        part, *batch = delinearised(number // self.kv_heads, (self.parts, *self.batch))
        return part, tuple(batch), number % self.kv_heads

    def within(self, part: Index, bound: Index | int) -> Index:
        """A bound of keys, clamped to a part."""
        bound = bound if isinstance(bound, Index) else constant(bound)
        if not self.in_parts:
            return bound
        first = part * self.part_keys
        return (bound - first).clamp(0, self.part_keys) + first

    def query(self, row: Index) -> Index:
        """The query of a row."""
        return row // self.group

    def query_place(self, head: Index, row: Index, k: Index) -> Indices:
        """The last two indices of a row's element in the queries."""
        return (self.query(row), (head * self.group + row % self.group) * self.depth + k)


def heads_too_large(attention: AttentionSizes) -> VerifyException:
    """The error where no block of keys and values fits; such a kernel is never chosen."""
    return VerifyException(
        f"fusion.kernel attention: heads of {attention.depth} and {attention.width} elements "
        "do not fit into the device's local memory"
    )
