"""Gradients of random programs, over all operations, beside differences: once, and of gradients."""

import random
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.types import element_of
from tests.fuzz.draw import Draw
from tests.fuzz.makers import grow
from tests.fuzz.program import Program, call
from tests.gradients.differences import Program as Differentiated
from tests.gradients.differences import weighted

Array = np.ndarray

STEPS = (1e-4, 2e-5, 4e-6)
"""Of three differences: where two that follow one another differ, the program bends there."""

AGREE, CLOSE = 1e-5, 1e-4

LARGEST = 1e5
"""Of a scalar that differences can tell from its neighbours."""

NOT_SLOPES = {"stop_gradient", "round_tf32"}
"""Operations whose gradient is not their slope, as is that of a cast to half precision."""

BATCHES, EACH, JUDGED = 6, 25, 10
"""Of so many programs, most are judged: others have no floats, or a place where they bend."""


def drawn(seed: str) -> Program:
    """A small program that is mostly finite."""
    rng = random.Random(seed)
    draw = Draw(rng, "tame", rng.choice((6, 30, 60)))
    draw.float_element = "f64"
    grow(draw, rng.choice((1, 2, 3, 4, 6)))
    while not draw.steps:
        grow(draw, 1)
    return draw.program()


def has_slopes(program: Program) -> bool:
    """Whether a program computes in f64 alone, by operations whose gradient is their slope."""
    casts = [dict(step.attributes).get("T", "f64") for step in program.steps]
    elements = {leaf.array.dtype for leaf in program.leaves if leaf.array.dtype.kind not in "iub"}
    half = {"f16", "bf16", "f32"} & {str(item) for item in casts}
    return elements == {np.dtype(np.float64)} and not half and not NOT_SLOPES & program.names


def differentiated(program: Program, arrays: Sequence[Array]) -> Differentiated | None:
    """A scalar of the program's floats by its float leaves; None where it has none."""
    leaves = [leaf for leaf in program.leaves if leaf.array.dtype == np.float64]

    def build(b: Emitter, values: Sequence[SSAValue]) -> SSAValue:
        known = {leaf.number: value for leaf, value in zip(leaves, values, strict=True)}
        for leaf in program.leaves:
            if leaf.number not in known:
                known[leaf.number] = b.constant_array(np.array(leaf.array, order="C"))
        for step in program.steps:
            known.update(zip(step.numbers, call(b, step, known), strict=True))
        results = [known[number] for number in program.outputs]
        return weighted(b, [item for item in results if element_of(item.type).is_float])

    try:
        return Differentiated(arrays, build)
    except TypeError:  # of nothing there is no sum
        return None


def slope(program: Differentiated, arrays: Sequence[Array], lines: Sequence[Array]) -> float | None:
    """The derivative along a direction; None where the program bends, or is not finite."""

    def along(step: float) -> float:
        moved = [array + step * line for array, line in zip(arrays, lines, strict=True)]
        return float(program.values(moved, [program.scalar])[0])

    found: list[float] = []
    here = along(0.0)
    if not abs(here) < LARGEST:
        return None
    for step in STEPS:
        far, near = along(2 * step) - along(-2 * step), along(step) - along(-step)
        found.append((8 * near - far) / (12 * step))
        if not abs(along(step) - 2 * here + along(-step)) <= 1e-2 * step * (1 + abs(here)):
            return None
    scale = max(1.0, *map(abs, found))
    close = [abs(one - other) <= AGREE * scale for one, other in pairwise(found)]
    return found[1] if all(close) and np.isfinite(found).all() else None


def judged(seed: str) -> bool:
    """Checks a program once and twice; whether there was anything to check."""
    program = drawn(seed)
    if not has_slopes(program):
        return False
    noise = np.random.default_rng(len(program.steps))
    arrays = [
        np.asarray(leaf.array + 0.05 * noise.standard_normal(leaf.array.shape))
        for leaf in program.leaves
        if leaf.array.dtype == np.float64
    ]
    made = differentiated(program, arrays)
    if made is None:
        return False
    for order in (1, 2):
        try:
            gradients = made.gradients()
        except MgnError as error:
            assert "has no gradient; use" in str(error)
            return False
        values = made.values(arrays, gradients)
        lines = [np.asarray(noise.normal(size=array.shape)) for array in arrays]
        expected = slope(made, arrays, lines)
        if expected is None:
            return order == 2
        parts = [value * line for value, line in zip(values, lines, strict=True)]
        scale = max(1.0, abs(expected), sum(float(np.abs(part).sum()) for part in parts))
        found = sum(float(part.sum()) for part in parts)
        assert abs(found - expected) <= CLOSE * scale, f"order {order}: {seed}\n{program.text()}"
        for value, array in zip(gradients, arrays, strict=True):
            assert isinstance(value.type, TensorType)
            assert value.type.get_shape() == array.shape
        made.scalar = weighted(made.emitter, gradients, seed=6)
    return True


@pytest.mark.parametrize("batch", range(BATCHES))
def test_gradients_of_random_programs_are_their_slopes(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("draw", "makers", "movers", "spatial"):
        monkeypatch.setattr(f"tests.fuzz.{module}.FLOAT_ELEMENTS", ("f64",), raising=False)
    with np.errstate(all="ignore"):
        count = sum(judged(f"gradient {batch} {number}") for number in range(EACH))
    assert count >= JUDGED
