"""Gradients beside differences: the derivative along a random direction, which every element of
every gradient has a part in.

In: a function that builds a scalar from values, and f64 arrays for them. Out: nothing, or an
AssertionError.
"""

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.grad import GradOp
from mgn.dialects.mgn.gradients.reverse import differentiate_block
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.types import element_of, element_of_dtype, tensor

Array = np.ndarray
Build = Callable[[Emitter, Sequence[SSAValue]], SSAValue]

STEP = 2e-5
"""Of differences of fourth order, whose own error is that of rounding, about 1e-10."""

CLOSE = 1e-6


class Program:
    """A scalar of some values, as a block, with what gradients add to it."""

    def __init__(self, arrays: Sequence[Array], build: Build) -> None:
        types = [tensor(element_of_dtype(array.dtype), array.shape) for array in arrays]
        self.block = Block(arg_types=types)
        self.emitter = Emitter(self.block.add_op)
        self.scalar = build(self.emitter, self.block.args)

    def gradients(self) -> list[SSAValue]:
        """The gradients of the scalar by all values."""
        op = GradOp(self.scalar, list(self.block.args))
        op.verify()
        self.block.add_op(op)
        keep = self.emitter.concat([self.emitter.reshape(item, [-1]) for item in op.outputs])
        differentiate_block(self.block)
        for step in self.block.ops:
            step.verify()
        joined = keep.owner
        assert not isinstance(joined, Block)
        return [value.owner.operands[0] for value in joined.operands]  # type: ignore[union-attr]

    def values(self, arrays: Sequence[Array], wanted: Sequence[SSAValue]) -> list[Array]:
        """Some values of the block, of arrays for its arguments."""
        environment: dict[SSAValue, Array] = dict(zip(self.block.args, arrays, strict=True))
        Interpreter().run_block(self.block, environment)
        return [environment[value] for value in wanted]


def weighted(b: Emitter, results: Sequence[SSAValue], seed: int = 5) -> SSAValue:
    """A scalar in which each element of each float has a weight of its own."""
    random = np.random.default_rng(seed)
    parts: list[SSAValue] = []
    for value in results:
        assert isinstance(value.type, TensorType)
        element = element_of(value.type)
        if element.is_float:
            weights = random.uniform(0.5, 1.5, value.type.get_shape()).astype(element.dtype)
            parts.append(b.sum(b.mul(value, b.constant_array(np.asarray(weights)))))
    return reduce(b.add, parts)


def check(build: Build, arrays: Sequence[Array], second: bool = False) -> None:
    """Checks the gradients of a scalar, and of a scalar of these with `second`."""
    program = Program(arrays, build)
    found = _check(program, arrays)
    if second:
        program.scalar = weighted(program.emitter, found, seed=6)
        _check(program, arrays)


def _check(program: Program, arrays: Sequence[Array]) -> list[SSAValue]:
    scalar = program.scalar
    gradients = program.gradients()
    values = program.values(arrays, gradients)
    random = np.random.default_rng(7)
    directions = [np.asarray(random.normal(size=array.shape)) for array in arrays]

    def along(step: float) -> float:
        moved = [array + step * line for array, line in zip(arrays, directions, strict=True)]
        return float(program.values(moved, [scalar])[0])

    near, far = along(STEP) - along(-STEP), along(2 * STEP) - along(-2 * STEP)
    expected = (8 * near - far) / (12 * STEP)
    parts = [np.sum(value * line) for value, line in zip(values, directions, strict=True)]
    scale = sum(
        float(np.sum(np.abs(value * line))) for value, line in zip(values, directions, strict=True)
    )
    assert np.isfinite(expected), "the program is not finite there"
    assert abs(sum(parts) - expected) <= CLOSE * max(1.0, scale), (sum(parts), expected)
    return gradients
