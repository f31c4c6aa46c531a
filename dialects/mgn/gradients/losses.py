"""Gradients of losses, in the pass that the loss takes: of cross-entropy (softmax - labels) / rows.

Labels that are probabilities need not have a sum of 1: logits get softmax · Σ labels - labels.
"""

from math import prod

from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.gradients.rules import Gradients, Site, gradient, in_full, summed_to
from mgn.dialects.mgn.operations.rows.losses import counted_rows
from mgn.dialects.shapes import Shape, broadcast_shapes
from mgn.dialects.types import counting_type


def _of_each(b: Emitter, at: Site, shape: Shape) -> SSAValue:
    """What each row or element of a shape gets of the loss: nothing, where it is ignored."""
    counted = counted_rows(b, at.operands[1], at.values.get("ignore_index"))
    if counted is not None:
        return _of_counted(b, at, counted)
    if at.values["reduction"] == "none":
        return at.g
    share = b.div(at.g, float(prod(shape))) if at.values["reduction"] == "mean" else at.g
    return b.broadcast_to(share, shape)


def _of_counted(b: Emitter, at: Site, counted: SSAValue) -> SSAValue:
    """The same of rows some of which are ignored: the mean is over the others."""
    share = at.g
    if at.values["reduction"] == "mean":
        share = b.div(share, b.sum(b.cast(counted, element_type_of(at.g))))
    return b.where(counted, share, 0.0)


@gradient("cross_entropy")
@in_full
def cross_entropy(b: Emitter, at: Site) -> Gradients:
    """(softmax - one hot) · g / rows, or (softmax · Σ labels - labels) · g / rows."""
    logits, labels = at.operands
    rows = shape_of(logits)[:-1]
    g = b.reshape(_of_each(b, at, rows), (*rows, 1))
    counted = counted_rows(b, labels, at.values["ignore_index"])
    total = b.logsumexp(logits, axis=-1, keepdims=True)
    chances = b.exp(b.sub(logits, total))
    if element_type_of(labels).is_float:
        weight = b.sum(labels, axis=-1, keepdims=True)
        own = b.mul(b.sub(b.mul(chances, weight), labels), g)
        return [own, b.mul(b.sub(total, logits), g) if at.wants(1) else None]
    hit = _is_label(b, labels, shape_of(logits)[-1])
    own = b.mul(b.where(hit, b.sub(chances, 1.0), chances), g)
    return [own if counted is None else b.where(b.expand_dims(counted, axis=-1), own, 0.0), None]


def _is_label(b: Emitter, labels: SSAValue, classes: int) -> SSAValue:
    """Where each row's class is, clamped to the classes as in the loss."""
    wide = counting_type(classes, element_type_of(labels))
    ids = b.clamp(b.cast(labels, wide), min=0.0, max=float(classes - 1))
    return b.eq(b.expand_dims(ids, axis=-1), b.iota((classes,), axis=0, T=wide))


@gradient("bce")
@in_full
def bce(b: Emitter, at: Site) -> Gradients:
    """(x - target) / (x (1 - x)), the divisor at least 1e-12, as in PyTorch."""
    x, target = at.operands
    g = _of_each(b, at, broadcast_shapes(shape_of(x), shape_of(target)))
    spread = b.max(b.mul(x, b.sub(1.0, x)), 1e-12)
    own = b.mul(g, b.div(b.sub(x, target), spread))
    odds = b.sub(b.max(b.log1p(b.neg(x)), -100.0), b.max(b.log(x), -100.0))
    return [summed_to(b, own, shape_of(x)), summed_to(b, b.mul(g, odds), shape_of(target))]


@gradient("bce_with_logits")
@in_full
def bce_with_logits(b: Emitter, at: Site) -> Gradients:
    """sigmoid(x) - target."""
    x, target = at.operands
    g = _of_each(b, at, broadcast_shapes(shape_of(x), shape_of(target)))
    own = b.mul(g, b.sub(b.sigmoid(x), target))
    return [summed_to(b, own, shape_of(x)), summed_to(b, b.neg(b.mul(g, x)), shape_of(target))]


@gradient("mse")
@in_full
def mse(b: Emitter, at: Site) -> Gradients:
    """2 (x - target)."""
    x, target = at.operands
    g = _of_each(b, at, broadcast_shapes(shape_of(x), shape_of(target)))
    return _of_difference(b, at, b.mul(b.mul(g, 2.0), b.sub(x, target)))


@gradient("huber")
@in_full
def huber(b: Emitter, at: Site) -> Gradients:
    """The difference, held within delta."""
    x, target = at.operands
    g = _of_each(b, at, broadcast_shapes(shape_of(x), shape_of(target)))
    delta = at.values["delta"]
    return _of_difference(b, at, b.mul(g, b.clamp(b.sub(x, target), min=-delta, max=delta)))


def _of_difference(b: Emitter, at: Site, own: SSAValue) -> Gradients:
    x, target = at.operands
    return [summed_to(b, own, shape_of(x)), summed_to(b, b.neg(own), shape_of(target))]
