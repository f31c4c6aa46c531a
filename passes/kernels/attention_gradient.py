"""What the gradient of an attention is made of, as schedules see it: sizes and what is walked.

In: a body with one such operation. Out: its `GradientSizes`. A kernel has rows of its own, queries
or keys, and walks the others:

    attention_lse               a row is a query; keys are walked; one product of both
    attention_query_gradient    a row is a query; keys are walked; two products, and one more for dq
    attention_key_gradient      a row is a key; queries are walked; two products, two for dk and dv

Queries that share a key head are taken together, as in attention.
"""

from dataclasses import dataclass
from typing import Self

from mgn.dialects.fusion.forms import ATTENTION_GRADIENT
from mgn.passes.kernels.attention import AttentionSizes
from mgn.passes.kernels.body import Body, Node

LSE, QUERIES, KEYS = ATTENTION_GRADIENT


@dataclass(frozen=True)
class GradientSizes(AttentionSizes):
    """The sizes of the operation; `depth` is a head's size in q and k, `width` in v and g."""

    @classmethod
    def of_body(cls, body: Body) -> Self:
        (node,) = [node for node in body.nodes if node.name in ATTENTION_GRADIENT]
        return cls(node)

    @property
    def of_keys(self) -> bool:
        """Whether its rows are keys."""
        return self.node.name == KEYS

    @property
    def of_totals(self) -> bool:
        """Whether it gives the log-sum-exp of rows alone."""
        return self.node.name == LSE

    @property
    def batch(self) -> tuple[int, ...]:
        return self.node.shape[:-2]

    @property
    def queries(self) -> int:
        return self.node.operands[0].shape[-2]

    @property
    def width(self) -> int:
        return 0 if self.of_totals else self.node.operands[2].shape[-1] // self.kv_heads

    @property
    def bias(self) -> Node | None:
        position = 2 if self.of_totals else 6
        operands = self.node.operands
        return operands[position] if len(operands) > position else None

    @property
    def own(self) -> int:
        """Rows of a key head."""
        return self.keys if self.of_keys else self.rows

    @property
    def walked(self) -> int:
        """How many are walked for a row."""
        return self.rows if self.of_keys else self.keys

    @property
    def sums(self) -> tuple[int, ...]:
        """The columns of what is summed up for a row."""
        if self.of_totals:
            return ()
        return (self.depth, self.width) if self.of_keys else (self.depth,)

    @property
    def products(self) -> int:
        """Multiply-adds of a score."""
        return self.depth + self.width + sum(self.sums)
