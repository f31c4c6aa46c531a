"""Networks of images as they are with channels last: `[N, …, C]` between convolutions.

Before:
    %1 = mgn.reshape(mgn.transpose(mgn.windows(%x) …) …) … : … -> tensor<576x3136xf32>
    %2 = mgn.matmul(%w, %1) : (tensor<64x576xf32>, …) -> tensor<64x3136xf32>
    %3 = mgn.reshape(%2) … -> tensor<1x64x56x56xf32>
    %y = mgn.relu(%3) : tensor<1x64x56x56xf32>
After:
    %0 = mgn.transpose(%x) perm = [0, 2, 3, 1] …
    … mgn.windows(mgn.transpose(%0)) … -> tensor<3136x576xf32>
    %2 = mgn.matmul(%1, %v) transpose_b = true : … -> tensor<3136x64xf32>
    %3 = mgn.relu(mgn.reshape(%2) …) : tensor<1x56x56x64xf32>
    %y = mgn.transpose(%3) perm = [0, 3, 1, 2] …

A matrix unit then finds neighbours of a product's shared axis side by side in memory, and results
are written so, too. The turn of a result passes what follows for each element and each channel, and
pools whose windows share no places, up to the next convolution; elsewhere it is read through, or it
is a copy. Weights are turned once.
Whether the graph is cheaper so is for prices to say.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import in_single_precision, shape_of
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.operations.rows.normalisation import normalised_groups
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.shapes import Shape
from mgn.dialects.types import element_of
from mgn.passes.rewriting import emitter_before, erase_dead

LEAST_RANK = 4
"""Axes of an image whose turns are worth it."""

LEAST_CHANNELS = 16
"""Images of fewer channels keep them first: they fill no chunk of a shared axis."""


def turn_channels_last(graph: GraphOp) -> int:
    """Rewrites the convolutions of a graph, and what follows them; how many there were."""
    turn = _Turn(graph.block)
    for op in list(graph.block.ops):
        if isinstance(op, TensorOp):
            turn.visit(op)
    erase_dead(graph.block)
    return turn.convolutions


def to_last(rank: int) -> Shape:
    """The permutation from `[N, C, …]` to `[N, …, C]`."""
    return (0, *range(2, rank), 1)


def to_first(rank: int) -> Shape:
    """The permutation back."""
    return (0, rank - 1, *range(1, rank - 1))


@dataclass
class _Turn:
    """A walk over a block. `last` has images with their channels last, by what they are as images;
    `turned` those that were not computed so.
    """

    block: Block
    last: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    turned: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    convolutions: int = 0

    def visit(self, op: TensorOp) -> None:
        """Puts the same with channels last behind an operation that can be so."""
        if len(op.results) != 1 or op.next_op is None:
            return
        b, value = Emitter(emitter_before(op.next_op).insert, op.location), op.results[0]
        made = self._of(b, op)
        if made is not None:
            image = b.transpose(made, to_first(len(shape_of(made))))
            self.last[image] = made
            same = shape_of(image) == shape_of(value)
            value.replace_all_uses_with(image if same else b.reshape(image, shape_of(value)))

    def _of(self, b: Emitter, op: TensorOp) -> SSAValue | None:
        """What an operation computes, with channels last; None where it stays as it is."""
        convolution = Convolution.of(op)
        if convolution is not None:
            image = self._any(convolution.image)
            few = convolution.channels < LEAST_CHANNELS and image is None
            return None if few else self._convolved(b, convolution)
        if op.spec.kind is Kind.ELEMENTWISE:
            return self._elementwise(b, op)
        if op.spec.kind is Kind.REDUCTION:
            return _reduced(self, b, op) if op.operands[0] in self.last else _pooled(self, b, op)
        make = MOVED.get(op.spec.name)
        if make is not None and op.operands[0] in self.last:
            return make(self, b, op)
        return None

    def _any(self, value: SSAValue) -> SSAValue | None:
        return self.last.get(value)

    def with_channels_last(self, b: Emitter, value: SSAValue) -> SSAValue:
        """An image with its channels last; a copy where it is none that was computed so."""
        found = self.last.get(value) or self.turned.get(value)
        if found is not None:
            return found
        owner = value.owner
        after = owner.first_op if isinstance(owner, Block) else owner.next_op
        assert after is not None, "a graph's return comes last"
        place = emitter_before(after)
        if isinstance(owner, TensorOp) and len(owner.operands) == 1 and _is_rounding(owner):
            inner = self.with_channels_last(place, owner.operands[0])
            made = place.call(owner.spec.name, inner, **owner.values)
        elif isinstance(owner, TensorOp) and owner.spec.name == "pad":
            inner = self.with_channels_last(place, owner.operands[0])
            padding = _turned(owner.values["padding"])
            made = place.pad(inner, padding, owner.values["value"])
        else:
            made = place.transpose(value, to_last(len(shape_of(value))))
        assert isinstance(made, SSAValue)
        self.turned[value] = made
        return made

    def _convolved(self, b: Emitter, conv: "Convolution") -> SSAValue:
        self.convolutions += 1
        image = self.with_channels_last(b, conv.image)
        shape, sizes, result = shape_of(image), conv.sizes, conv.result
        places = (result[0] * prod(result[2:]), shape[-1] * prod(sizes))
        if conv.windows is not None:
            first = b.transpose(image, to_first(len(shape)))
            found = b.windows(first, **conv.windows.values)
            image = b.transpose(found, (0, *range(2, 2 + 2 * len(sizes)), 1))
        columns = b.reshape(image, places)
        rows = _weights_channels_last(b, conv.weights, prod(sizes))
        y = b.matmul(columns, rows, transpose_b=True)
        for rounding in conv.roundings:
            y = b.call(rounding.spec.name, y, **rounding.values)
            assert isinstance(y, SSAValue)
        return b.reshape(y, (result[0], *result[2:], result[1]))

    def _elementwise(self, b: Emitter, op: TensorOp) -> SSAValue | None:
        shape = shape_of(op.results[0])
        if len(shape) < LEAST_RANK or not any(item in self.last for item in op.operands):
            return None
        operands = [self._beside(b, item, shape) for item in op.operands]
        if any(item is None for item in operands):
            return None
        made = b.call(op.spec.name, *operands, **op.values)
        assert isinstance(made, SSAValue)
        return made

    def _beside(self, b: Emitter, value: SSAValue, shape: Shape) -> SSAValue | None:
        """An operand as it broadcasts to an image whose channels are last."""
        own = shape_of(value)
        if own == shape:
            return self.with_channels_last(b, value)
        if own == () or (prod(own) == 1 and len(own) <= len(shape)):
            return b.reshape(value, ())
        if len(own) not in (len(shape), len(shape) - 1) or prod(own[2 - len(shape) :]) != 1:
            return None
        if len(own) < len(shape):
            return b.reshape(value, own[:1])
        return b.reshape(value, (*own[:1], *own[2:], own[1]))


def _is_rounding(op: TensorOp) -> bool:
    return op.spec.name in ("cast", "round_tf32")


def _turned(values: Any) -> Any:
    """What an attribute says of each axis of an image, for channels last."""
    return (values[0], *values[2:], values[1])


def _pad(turn: _Turn, b: Emitter, op: TensorOp) -> SSAValue:
    padding = _turned(op.values["padding"])
    return b.pad(turn.last[op.operands[0]], padding, op.values["value"])


def _slice(turn: _Turn, b: Emitter, op: TensorOp) -> SSAValue:
    numbers = {name: _turned(value) for name, value in op.values.items()}
    made = b.call("slice", turn.last[op.operands[0]], **numbers)
    assert isinstance(made, SSAValue)
    return made


def _concat(turn: _Turn, b: Emitter, op: TensorOp) -> SSAValue:
    rank = len(shape_of(op.results[0]))
    images = [turn.with_channels_last(b, item) for item in op.operands]
    axis = to_last(rank).index(op.values["axis"] % rank)
    made = b.call("concat", images, axis=axis)
    assert isinstance(made, SSAValue)
    return made


def _reduced(turn: _Turn, b: Emitter, op: TensorOp) -> SSAValue | None:
    """A reduction of all places of an image, whose axes stay."""
    image = turn.last[op.operands[0]]
    rank = len(shape_of(image))
    if tuple(op.values["axis"]) != tuple(range(2, rank)):
        return None
    made = b.call(op.spec.name, image, axis=tuple(range(1, rank - 1)), keepdims=True)
    assert isinstance(made, SSAValue)
    return made


def _pooled(turn: _Turn, b: Emitter, op: TensorOp) -> SSAValue | None:
    """A reduction of windows of an image that share no places."""
    elements = op.operands[0].owner
    windows = _before(elements, "transpose", "windows")
    if windows is None or windows.operands[0] not in turn.last:
        return None
    image, how = turn.last[windows.operands[0]], windows.values
    axes = len(how["sizes"])
    shared = any(step < size for step, size in zip(how["strides"], how["sizes"], strict=True))
    order = (0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes))
    fits = len(shape_of(image)) == 2 + axes and not shared and set(how["dilation"]) == {1}
    assert isinstance(elements, TensorOp)
    reduced = tuple(op.values["axis"]) == tuple(range(2, 2 + axes)) and not op.values["keepdims"]
    if not fits or not reduced or tuple(elements.values["perm"]) != order:
        return None
    found = b.windows(b.transpose(image, to_first(2 + axes)), **how)
    found = b.transpose(found, (0, *range(2, 2 + 2 * axes), 1))
    made = b.call(op.spec.name, found, axis=tuple(range(1 + axes, 1 + 2 * axes)), keepdims=False)
    assert isinstance(made, SSAValue)
    return made


def _group_norm(turn: _Turn, b: Emitter, op: TensorOp) -> SSAValue:
    _, weight, bias = op.spec.split_operands(op.operands)
    image, how = turn.last[op.operands[0]], op.values
    axis = len(shape_of(image)) - 1
    normalise = in_single_precision(normalised_groups)
    return normalise(b, image, weight, bias, **how, axis=axis)


MOVED: Mapping[str, Callable[[_Turn, Emitter, TensorOp], SSAValue]] = {
    "pad": _pad,
    "slice": _slice,
    "concat": _concat,
    "group_norm": _group_norm,
}
"""Operations that channels last pass besides those of each element."""


def _weights_channels_last(b: Emitter, weights: SSAValue, each: int) -> SSAValue:
    """Filters in rows `[O, C·sizes]` as `[O, sizes·C]`. What a rounding was made of is turned, and
    rounded then: a product reads it as a matrix unit does.
    """
    out, depth = shape_of(weights)
    source = weights
    while isinstance(source.owner, TensorOp) and source.owner.spec.name == "reshape":
        source = source.owner.operands[0]
    last = source.owner
    is_last = isinstance(last, TensorOp) and (last.spec.name == "round_tf32" or _widens(last))
    if isinstance(last, TensorOp) and is_last:
        source = last.operands[0]
    value = b.reshape(source, (out, depth // each, each))
    value = b.reshape(b.transpose(value, (0, 2, 1)), (out, depth))
    if isinstance(last, TensorOp) and is_last:
        value = b.call(last.spec.name, value, **last.values)
    assert isinstance(value, SSAValue)
    return value


def _widens(op: TensorOp) -> bool:
    """Whether an operation is a cast to a type of more bytes."""
    if op.spec.name != "cast":
        return False
    return element_of(op.operands[0].type).bytes < element_of(op.results[0].type).bytes


@dataclass(frozen=True)
class Convolution:
    """A product of filters `[O, C·sizes]` with windows of an image, or with its places. What the
    next product multiplies is rounded before it has the shape of an image: by `roundings`, the
    first one first.
    """

    weights: SSAValue
    image: SSAValue
    windows: TensorOp | None
    result: Shape
    roundings: tuple[TensorOp, ...] = ()

    @property
    def channels(self) -> int:
        return shape_of(self.image)[1]

    @property
    def sizes(self) -> Shape:
        return () if self.windows is None else tuple(self.windows.values["sizes"])

    @staticmethod
    def of(op: Operation) -> "Convolution | None":
        """The convolution without groups whose result an operation gives its shape."""
        if not isinstance(op, TensorOp) or op.spec.name != "reshape":
            return None
        product, roundings = _rounded_from(op.operands[0].owner)
        if not isinstance(product, TensorOp) or product.spec.name != "matmul":
            return None
        result, (weights, columns) = shape_of(op.results[0]), product.operands
        turned = product.values["transpose_a"] or product.values["transpose_b"]
        if turned or len(shape_of(weights)) != 2 or len(result) < LEAST_RANK:
            return None
        axes = len(result) - 2
        turn = _before(columns.owner, "reshape", "transpose")
        if turn is None:
            return None
        elements_first = (0, 1, *range(2 + axes, 2 + 2 * axes), *range(2, 2 + axes))
        if tuple(turn.values["perm"]) != elements_first:
            return None
        found = turn.operands[0].owner
        if not isinstance(found, TensorOp) or found.spec.name not in ("windows", "reshape"):
            return None
        image, whole = found.operands[0], shape_of(found.results[0])
        if len(shape_of(image)) != 2 + axes or whole[2 : 2 + axes] != result[2:]:
            return None
        if found.spec.name == "reshape" and whole != (*shape_of(image), *(1,) * axes):
            return None
        depth = prod(whole[2 + axes :]) * whole[1]
        batch = () if result[0] == 1 else result[:1]
        if shape_of(columns) != (*batch, depth, prod(result[2:])) or 0 in whole:
            return None
        if whole[0] != result[0] or shape_of(weights) != (result[1], depth):
            return None
        windows = found if found.spec.name == "windows" else None
        return Convolution(weights, image, windows, result, roundings)


def _rounded_from(op: object) -> tuple[object, tuple[TensorOp, ...]]:
    """What an operation only rounds the result of, and those that round it, the first one first."""
    found = list[TensorOp]()
    while isinstance(op, TensorOp) and _is_rounding(op):
        found.append(op)
        op = op.operands[0].owner
    return op, tuple(found[::-1])


def _before(op: object, name: str, inner: str) -> TensorOp | None:
    """The operation of a name that an operation of a name reads first."""
    if not isinstance(op, TensorOp) or op.spec.name != name:
        return None
    found = op.operands[0].owner
    return found if isinstance(found, TensorOp) and found.spec.name == inner else None
