"""Small launches that hang on little stand in the first span that may have them."""

import random
from itertools import pairwise

import pytest

import mgn
from mgn.dialects.kernel import DEVICES
from mgn.dialects.plan import ProgramOp
from mgn.dialects.plan.steps import LaunchOp
from mgn.driver.compilation import compile_graph
from mgn.passes.merge_launches.accesses import Accesses, in_early_spans, next_barriers
from tests.passes.merge_launches.test_barriers import clash, random_launches, run, spans


def drawn(seed: int) -> tuple[list[Accesses], list[bool], list[int]]:
    """Launches, which of them may move, and the order that they are given."""
    draw = random.Random(seed)
    launches = random_launches(draw, 14)
    movable = [draw.random() < 0.5 for _ in launches]
    return launches, movable, in_early_spans(launches, movable)


def reordered(launches: list[Accesses], order: list[int]) -> list[Accesses]:
    return [launches[number] for number in order]


@pytest.mark.parametrize("seed", range(200))
def test_memory_holds_the_same_and_no_barrier_is_added(seed: int) -> None:
    launches, movable, order = drawn(seed)
    assert sorted(order) == list(range(len(launches)))
    assert run(launches, order) == run(launches, list(range(len(launches))))
    stay = [number for number in order if not movable[number]]
    assert stay == sorted(stay)
    after = spans(next_barriers(reordered(launches, order)))
    assert len(after) <= len(spans(next_barriers(launches)))


@pytest.mark.parametrize("seed", range(60))
def test_what_may_move_meets_what_it_hangs_on_in_the_span_before(seed: int) -> None:
    launches, movable, order = drawn(seed)
    after = next_barriers(reordered(launches, order))
    found = [[order[place] for place in span] for span in spans(after)]
    for before, span in pairwise(found):
        for number in span:
            if movable[number]:
                assert any(clash(launches[number], launches[other]) for other in before)


PROGRAM = """
state position: i32[]

graph g(x: f32[1, 256]) {
  param a: f32[256, 256] = normal(std = 0.1)
  param words: f32[256, 50000] = normal(std = 0.1)
  h = tanh((x + cast(position, f32)) @ a)
  y = h @ words
  position <- position + 1
  return y
}
"""


def test_a_counter_is_no_launch_behind_the_last_product() -> None:
    module = mgn.parse(PROGRAM).lower()
    compile_graph(module, DEVICES["nvidia-h200"])
    (program,) = [op for op in module.body.block.ops if isinstance(op, ProgramOp)]
    launches = [op for op in program.walk() if isinstance(op, LaunchOp)]
    (counts,) = [op for op in launches if op.kernel_name.startswith("pointwise_add")]
    assert counts is not launches[-1]
