"""The gradient of attention, from the row log-sum-exp L of its scores (FlashAttention; Dao et al.
2022, arXiv:2205.14135).

With D = Σ dO·O: P = exp(s - L), dV = Pᵀ dO, dS = P (dO Vᵀ - D). What dS sends to queries, keys and
bias goes back through the operations that make scores: the scale, the soft cap, the bias, masks,
and heads that share keys.
"""

import math
from typing import cast

from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.gradients.reverse import Tape, distinct
from mgn.dialects.mgn.gradients.rules import Gradients, Site, gradient, in_full
from mgn.dialects.mgn.operations.attention import Heads, scores_of


@gradient("attention")
@in_full
def attention(b: Emitter, at: Site) -> Gradients:
    """Of queries, keys, values and bias. Hidden keys get 0; what they hold counts for nothing."""
    operands = distinct(b, [value for value in at.operands if value is not None])
    q, k, v = operands[:3]
    bias = operands[3] if len(operands) > 3 else None
    values = dict(at.values)
    layout = Heads(values.pop("heads"), values.pop("kv_heads"))
    recorded, scoring = _recorder(b)
    scores = scores_of(recorded, layout, q, _finite(recorded, k), bias, **values)
    total = b.logsumexp(scores, axis=-1, keepdims=True)
    weights = b.exp(b.sub(scores, b.where(b.eq(total, -math.inf), 0.0, total)))
    sent = layout.split(b, at.g, layout.axes)
    own = b.sum(b.mul(sent, layout.split(b, at.y, layout.axes)), axis=-1, keepdims=True)

    recorded, weighting = _recorder(b)
    sums = recorded.matmul(weights, layout.shared(recorded, v))
    (to_values,) = Tape(weighting).pull(b, [(sums, sent)], [v])
    seen = b.matmul(sent, layout.shared(b, _finite(b, v)), transpose_b=True)
    to_scores = b.mul(weights, b.sub(seen, own))
    leaves = [value for value in (q, k, bias) if value is not None]
    found = Tape(scoring).pull(b, [(scores, to_scores)], leaves)
    return [found[0], found[1], to_values, found[2] if len(leaves) > 2 else None]


def _recorder(b: Emitter) -> tuple[Emitter, list[Operation]]:
    """An emitter that adds where another one does, and the list of what it adds."""
    added: list[Operation] = []

    def insert(op: Operation) -> None:
        b.insert(op)
        added.append(op)

    return Emitter(insert, b.location), added


def _finite(b: Emitter, x: SSAValue) -> SSAValue:
    """Zeros for what is not finite: times the weight 0 of a hidden key it would not be 0."""
    return cast(SSAValue, b.where(b.lt(b.abs(x), math.inf), x, 0.0))
