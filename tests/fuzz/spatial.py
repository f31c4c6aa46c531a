"""How calls of convolutions, pooling, resizing and recurrences are drawn.

In: a `Draw`. Out: a step of the operation in it: the shapes and attributes of a random case, over
values of the program that have these shapes.
"""

from collections.abc import Callable
from functools import partial

from mgn.dialects.mgn.operation import FLOATS, OPERATIONS
from mgn.dialects.mgn.operations.recurrences.recurrence import CELLS, DIRECTIONS
from tests.dialects.recurrent_cases import GATES, drawn
from tests.dialects.spatial_cases import SPATIAL
from tests.fuzz.draw import Draw


def spatial(draw: Draw, name: str) -> int:
    call = SPATIAL[name][0](draw.rng)
    (first, *_) = OPERATIONS[name].operands
    element = draw.element_name(first.accepts)
    operands = [draw.value(element, shape) for shape in call.shapes]
    return draw.step(name, *operands, **call.attributes)


def recurrent(draw: Draw, name: str) -> int:
    _, shapes, attributes = drawn(draw.rng, name)
    element = draw.element_name(FLOATS)
    operands = [draw.value(element, shape) for shape in shapes]
    return draw.rng.choice(draw.steps_of(name, *operands, **attributes))


def time_loop(draw: Draw) -> int:
    cell, direction = draw.rng.choice(sorted(CELLS)), draw.rng.choice(sorted(DIRECTIONS))
    kind, many = CELLS[cell], len(DIRECTIONS[direction])
    steps, samples, size = (draw.rng.choice((1, 2, 3, 5)) for _ in range(3))
    element, rows = draw.rng.choice(("f32", "f32", "f64")), kind.gates * size
    shapes = [(steps, samples, many * rows), (many, size, rows)]
    given, r = (draw.value(element, shape) for shape in shapes)
    states = [draw.value(element, (many, samples, size)) for _ in range(kind.states)]
    if draw.rng.random() < 0.5:
        states.append(draw.value(element, (many, rows)))
    return draw.step("recurrence", given, r, tuple(states), cell=cell, direction=direction)


SPATIAL_MAKERS: dict[str, Callable[[Draw], int]] = {
    **{name: partial(spatial, name=name) for name in SPATIAL},
    **{name: partial(recurrent, name=name) for name in GATES},
    "recurrence": time_loop,
}
"""The maker of each of these operations."""
