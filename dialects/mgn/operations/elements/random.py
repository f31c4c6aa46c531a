"""Random numbers by a counter: each element of each call has a counter of its own, each run another
key, and the numbers are a function of both (`mgn.dialects.mgn.philox`).

The counter of an element is its index in the call's result (two words), the number of the call in
its graph (`site`) and the number of the run. `key`, a u32[3], holds the seed and the number of the
run. Where it is left out, it is the state `mgn.random` of the program.

The words are the same on every device and in the interpreter, and so are uniform numbers in f32 and
f64, but for the last place of `low + u * (high - low)`. Logarithms and cosines may differ in the
last places between devices, and with them normal numbers; an id that `categorical` draws differs
where two classes come that near.
"""

import math
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import ELEMENT, FLOAT, INT, SHAPE
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, shape_of
from mgn.dialects.mgn.operation import (
    FLOATS,
    AttributeSpec,
    Kind,
    OperandSpec,
    OperationSpec,
    define,
)
from mgn.dialects.mgn.philox import philox
from mgn.dialects.shapes import Shape, ShapeError, broadcast_shapes
from mgn.dialects.types import ElementType, Family, tensor

WORDS = frozenset({Family.UNSIGNED})
COUNTER_AND_KEY = ("c0", "c1", "c2", "c3", "k0", "k1")
MOST = 1 << 32
"""Elements that one word counts."""

HALF_BITS = {"f16": 11, "bf16": 8}
"""How many bits of a random word the fractions of narrow types have: all that they can hold."""


def _infer_philox(*types: TensorType, word: int) -> TensorType:
    if not 0 <= word < 4:
        raise ShapeError(f"philox gives the words 0 to 3, not {word}")
    return tensor("u32", broadcast_shapes(*(type.get_shape() for type in types)))


PHILOX = define(
    OperationSpec(
        "philox",
        Kind.ELEMENTWISE,
        "`y = philox(c0, c1, c2, c3, k0, k1, word = 0)`: a word of Philox 4×32-10 of a counter "
        "and a key.",
        (
            *(OperandSpec(name, WORDS, element="u32") for name in COUNTER_AND_KEY),
            AttributeSpec("word", INT, 0),
        ),
        _infer_philox,
        evaluate=philox,
    )
)

KEY = OperandSpec("key", WORDS, group="key", element="u32", optional=True, drawn=True)
SITE = AttributeSpec("site", INT, 0)


def _check_key(name: str, key: TensorType | None) -> None:
    if key is None:
        raise ShapeError(f"{name} needs a key of type u32[3]")
    if tuple(key.get_shape()) != (3,):
        raise ShapeError(f"{name}: the key is a u32[3]")


class _Words:
    """Random words for the elements of a shape, in one line."""

    def __init__(self, b: Emitter, shape: Sequence[int], key: SSAValue, site: int) -> None:
        self.b = b
        count = math.prod(shape)
        inner = math.prod(shape[1:]) if count > MOST else count
        outer = count // inner if inner else 0
        index = b.cast(b.iota((1, inner), axis=1, T="i64" if inner >= MOST // 2 else "i32"), "u32")
        high = b.cast(b.iota((outer, 1), axis=0, T="i32"), "u32")
        seed = [b.reshape(b.slice(key, starts=[i], stops=[i + 1]), ()) for i in range(3)]
        self.counter = (index, high, b.constant(site, "u32"), seed[2])
        self.key = (seed[0], seed[1])
        self.shape = tuple(shape)

    def word(self, number: int) -> SSAValue:
        """The words of that number, in the shape."""
        words = self.b.philox(*self.counter, *self.key, word=number)
        return self.b.reshape(words, self.shape)

    def fraction(self, number: int, element: ElementType) -> SSAValue:
        """Numbers of at least 0 and below 1, all multiples of one power of two, in f32 or f64. f64
        takes two words.
        """
        b = self.b
        if element.name == "f64":
            high = b.cast(b.div(self.word(2 * number), 1 << 5), "f64")
            low = b.cast(b.div(self.word(2 * number + 1), 1 << 6), "f64")
            return b.mul(b.add(b.mul(high, 2.0**26), low), 2.0**-53)
        bits = HALF_BITS.get(element.name, 24)
        whole = b.cast(b.div(self.word(number), 1 << (32 - bits)), "f32")
        return b.mul(whole, 2.0**-bits)


def _infer_drawn(name: str, shape: Shape, key: TensorType | None, T: ElementType) -> TensorType:
    if not T.is_float:
        raise ShapeError(f"{name} gives floats, not {T.name}")
    _check_key(name, key)
    return tensor(T, shape)


def _of_type(b: Emitter, drawn: SSAValue, T: ElementType) -> SSAValue:
    """What was drawn in a type that may be wider."""
    return b.identity(drawn) if element_type_of(drawn) is T else b.cast(drawn, T)


def _infer_uniform(
    key: TensorType | None, shape: Shape, low: float, high: float, T: ElementType, site: int
) -> TensorType:
    if not -math.inf < low <= high < math.inf:
        raise ShapeError(f"uniform takes finite low <= high, not {low:g} and {high:g}")
    return _infer_drawn("uniform", shape, key, T)


@composite(
    "uniform",
    (
        AttributeSpec("shape", SHAPE),
        AttributeSpec("low", FLOAT, 0.0),
        AttributeSpec("high", FLOAT, 1.0),
        AttributeSpec("T", ELEMENT, "f32"),
        KEY,
        SITE,
    ),
    _infer_uniform,
)
def uniform(
    b: Emitter, key: SSAValue, shape: Shape, low: float, high: float, T: ElementType, site: int
) -> SSAValue:
    """`y = uniform([4, 8], low = 0.0, high = 1.0)`: random numbers from low on, below high but for
    rounding.

    Of the seed of the run, `exe(…, seed = 7)`, or of a `key` of one's own. Shape: as given. Errors:
    no finite low <= high; no float type.
    """
    fraction = _Words(b, shape, key, site).fraction(0, T)
    if low != 0.0 or high != 1.0:
        fraction = b.add(b.mul(fraction, high - low), low)
    return _of_type(b, fraction, T)


def _infer_normal(
    key: TensorType | None, shape: Shape, mean: float, std: float, T: ElementType, site: int
) -> TensorType:
    if not 0.0 <= std < math.inf or not -math.inf < mean < math.inf:
        raise ShapeError(f"normal takes a finite mean and std >= 0, not {mean:g} and {std:g}")
    return _infer_drawn("normal", shape, key, T)


@composite(
    "normal",
    (
        AttributeSpec("shape", SHAPE),
        AttributeSpec("mean", FLOAT, 0.0),
        AttributeSpec("std", FLOAT, 1.0),
        AttributeSpec("T", ELEMENT, "f32"),
        KEY,
        SITE,
    ),
    _infer_normal,
)
def normal(
    b: Emitter, key: SSAValue, shape: Shape, mean: float, std: float, T: ElementType, site: int
) -> SSAValue:
    """`y = normal([4, 8], mean = 0.0, std = 1.0)`: random numbers of a normal distribution.

    By the method of Box and Muller (1958), of two words an element; in f32 they lie within 5.8
    standard deviations. Shape: as given. Errors: no finite mean; no finite
    std of at least 0; no float type.
    """
    wide: Any = T if T.name == "f64" else "f32"
    words = _Words(b, shape, key, site)
    single = element_type_of(b.full((), 0.0, T=wide))
    radius = b.sqrt(b.mul(b.log(b.sub(1.0, words.fraction(0, single))), -2.0))
    drawn = b.mul(radius, b.cos(b.mul(words.fraction(1, single), 2 * math.pi)))
    if std != 1.0:
        drawn = b.mul(drawn, std)
    if mean != 0.0:
        drawn = b.add(drawn, mean)
    return _of_type(b, drawn, T)


def _infer_categorical(logits: TensorType, key: TensorType | None, site: int) -> TensorType:
    shape = logits.get_shape()
    if not shape or not shape[-1]:
        raise ShapeError("categorical needs a class or more along the last axis")
    _check_key("categorical", key)
    return tensor("i32", shape[:-1])


@composite("categorical", (OperandSpec("logits", FLOATS), KEY, SITE), _infer_categorical)
def categorical(b: Emitter, logits: SSAValue, key: SSAValue, site: int) -> SSAValue:
    """`ids = categorical(logits)`: a class for each row, drawn with the probabilities of
    `softmax(logits)`.

    By the largest of the logits with Gumbel noise (Maddison, Tarlow, Minka: A* sampling; 2014); a
    class of -inf is not drawn while another one is finite. Shape: without the last axis, i32.
    Error: no class.
    """
    wide = "f64" if element_type_of(logits).name == "f64" else "f32"
    words = _Words(b, shape_of(logits), key, site)
    whole = b.cast(b.div(words.word(0), 1 << 9), wide)
    between = b.mul(b.add(whole, 0.5), 2.0**-23)
    noise = b.neg(b.log(b.neg(b.log(between))))
    return b.argmax(b.add(b.cast(logits, wide), noise), axis=-1)


def _infer_dropout(x: TensorType, p: float) -> TensorType:
    if not 0.0 <= p <= 1.0:
        raise ShapeError(f"dropout takes a share from 0 to 1, not {p:g}")
    return x


@composite("dropout", (OperandSpec("x", FLOATS), AttributeSpec("p", FLOAT, 0.5)), _infer_dropout)
def dropout(b: Emitter, x: SSAValue, p: float) -> SSAValue:
    """`y = dropout(x, p = 0.5)`: x itself in inference; in training a share of its elements is 0.

    A training step draws other elements each time, and the rest is larger by `1 / (1 - p)`.
    Shape: that of x. Error: a share that is not from 0 to 1.
    """
    return b.identity(x)
