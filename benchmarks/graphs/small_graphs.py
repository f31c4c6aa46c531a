"""Small graphs drawn at random: elementwise operations that broadcast, and reductions.

In: a seed, how many operations. Out: a `GraphOp`; values have several users, and it several
results.
"""

import random
from collections.abc import Iterator

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Region, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp, ReturnOp
from mgn.dialects.types import tensor

SHAPES = ((512, 768), (512, 768), (512, 1), (1, 768), (768,), (1, 1))
UNARY = ("tanh", "neg", "exp", "sigmoid", "relu", "abs", "log", "sin")
BINARY = ("add", "mul", "sub", "max", "div")


def small_graph(seed: int, operations: int) -> GraphOp:
    """A graph of so many operations, of which those that no result needs fall away."""
    rng = random.Random(seed)
    shapes = [rng.choice(SHAPES) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.6:
        shapes[0] = (512, 768)
    block = Block(arg_types=[tensor("f32", shape) for shape in shapes])
    b, made = Emitter(block.add_op), list[SSAValue]()
    pool: list[SSAValue] = list(block.args)
    for _ in range(operations):
        made.append(_step(b, rng, pool))
        pool.append(made[-1])
    returned = list(_returned(made, rng))
    block.add_op(ReturnOp(returned))
    inputs = [f"x{index}" for index in range(len(shapes))]
    return GraphOp("g", inputs, [f"y{index}" for index in range(len(returned))], Region(block))


def _returned(made: list[SSAValue], rng: random.Random) -> Iterator[SSAValue]:
    """The last values that nothing reads, and a few others."""
    used = [value for value in made if any(True for _ in value.uses)]
    yield from [value for value in made if value not in used][-3:]
    yield from [value for value in used if rng.random() < 0.1][:2]


def _step(b: Emitter, rng: random.Random, pool: list[SSAValue]) -> SSAValue:
    """A value computed from some of a pool."""
    x, kind = rng.choice(pool[-4:]), rng.choice("uuubbbbrr")
    shape = shape_of(x)
    if kind == "b":
        fits = [y for y in pool if broadcasts(shape, shape_of(y))]
        return b.call(rng.choice(BINARY), x, rng.choice(fits))
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if kind == "r" and len(shape) == 2 and axes:
        reduction = rng.choice(("sum", "max_reduce"))
        return b.call(reduction, x, axis=axes[-1], keepdims=rng.random() < 0.7)
    return b.call(rng.choice(UNARY), x)


def broadcasts(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    """Whether two shapes broadcast with each other."""
    pairs = zip(reversed(one), reversed(other), strict=False)
    return all(m == n or 1 in (m, n) for m, n in pairs)


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a value."""
    assert isinstance(value.type, TensorType)
    return tuple(value.type.get_shape())
