"""The gradient of attention, from the row log-sum-exp L of its scores (FlashAttention; Dao et al.
2022, arXiv:2205.14135).

With D = Σ dO·O: P = exp(s - L), dV = Pᵀ dO, dS = P (dO Vᵀ - D). What dS sends to queries and keys
are operations of their own, which need no scores in memory. A bias that is differentiated by has as
many numbers as its gradient: then dS goes back through the operations that make scores: the scale,
the soft cap, the bias, masks, and heads that share keys.
"""

import math
from typing import Any, cast

from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.gradients.reverse import Tape, distinct
from mgn.dialects.mgn.gradients.rules import Gradients, Site, gradient, in_full, summed_to
from mgn.dialects.mgn.operations.products.attention import Heads, scores_of


@gradient("attention")
def attention(b: Emitter, at: Site) -> Gradients:
    """Of queries, keys, values and bias. Hidden keys get 0; what they hold counts for nothing."""
    if at.operands[3] is not None and at.wants(3):
        return _with_bias(b, at)
    return _without_scores(b, at)


@in_full
def _without_scores(b: Emitter, at: Site) -> Gradients:
    """Of queries, keys and values, by operations that need no scores in memory."""
    q, k, v, bias = at.operands
    values = _scoring(at)
    front, rows = shape_of(at.g)[:-2], shape_of(q)[-2]
    heads = values["heads"]
    lse = b.attention_lse(q, k, bias=bias, **values)
    lse = b.broadcast_to(lse, (*front, rows, heads))
    parts = b.reshape(b.mul(at.g, at.y), (*front, rows, heads, shape_of(at.g)[-1] // heads))
    own = b.sum(parts, axis=-1)
    given = (q, k, v, at.g, lse, own)
    found: list[SSAValue | None] = [None] * 4
    if at.wants(0):
        found[0] = summed_to(
            b, b.attention_query_gradient(*given, bias=bias, **values), shape_of(q)
        )
    if at.wants(1) or at.wants(2):
        both = b.attention_key_gradient(*given, bias=bias, **values)
        width, shape = shape_of(k)[-1], shape_of(both)
        start = [0] * (len(shape) - 1)
        keys = b.slice(both, [*start, 0], [*shape[:-1], width])
        sums = b.slice(both, [*start, width], list(shape))
        found[1:3] = [summed_to(b, keys, shape_of(k)), summed_to(b, sums, shape_of(v))]
    return found


@in_full
def _with_bias(b: Emitter, at: Site) -> Gradients:
    """The same and of a bias, from weights and scores that are spelled out."""
    operands = distinct(b, [value for value in at.operands if value is not None])
    q, k, v = operands[:3]
    bias = operands[3] if len(operands) > 3 else None
    values = _scoring(at)
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


def _scoring(at: Site) -> dict[str, Any]:
    """The attributes that scores depend on."""
    return {name: value for name, value in at.values.items() if name != "rounded_weights"}


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
