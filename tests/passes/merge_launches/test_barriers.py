"""Barriers stand wherever the order of launches matters, and nowhere else."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest

import mgn
from mgn.dialects.kernel import DEVICES, CombineAtOp, FuncOp
from mgn.dialects.plan import ProgramOp
from mgn.dialects.plan.resident import EVERYWHERE
from mgn.driver.compilation import compile_graph
from mgn.passes.merge_launches.accesses import Accesses, next_barriers

BYTES = 12


def random_launches(draw: random.Random, count: int) -> list[Accesses]:
    """Launches on places that overlap one another, as values of an arena do."""

    def places(most: int) -> tuple[tuple[str, int, int], ...]:
        starts = [draw.randrange(BYTES) for _ in range(draw.randint(0, most))]
        return tuple(
            (draw.choice(["arena", "state"]), start, draw.randint(start + 1, BYTES))
            for start in starts
        )

    return [Accesses(places(2), places(1)) for _ in range(count)]


def run(launches: list[Accesses], order: list[int]) -> dict[tuple[object, int], int]:
    """What memory holds at the end: each launch writes a number made of itself and its inputs."""
    memory: dict[tuple[object, int], int] = {
        (place, byte): hash((place, byte)) for place in ("arena", "state") for byte in range(BYTES)
    }
    for number in order:
        launch = launches[number]
        seen = tuple(memory[p, b] for p, start, end in launch.reads for b in range(start, end))
        for place, start, end in launch.writes:
            for byte in range(start, end):
                memory[place, byte] = hash((number, byte, seen))
    return memory


def spans(barriers: list[int]) -> list[list[int]]:
    found: list[list[int]] = []
    start = 0
    while start < len(barriers):
        found.append(list(range(start, barriers[start])))
        start = barriers[start]
    return found


@pytest.mark.parametrize("seed", range(60))
def test_any_order_between_barriers_gives_what_the_written_order_gives(seed: int) -> None:
    draw = random.Random(seed)
    launches = random_launches(draw, 12)
    found = spans(next_barriers(launches))
    wanted = run(launches, list(range(12)))
    for _ in range(4):
        order = [number for span in found for number in draw.sample(span, len(span))]
        assert run(launches, order) == wanted


@pytest.mark.parametrize("seed", range(60))
def test_what_each_group_does_for_itself_needs_no_barrier_behind_it(seed: int) -> None:
    draw = random.Random(seed)
    launches = [
        replace(launch, everywhere=launch.can_repeat and draw.random() < 0.5)
        for launch in random_launches(draw, 12)
    ]
    found = spans(next_barriers(launches))
    wanted = run(launches, list(range(12)))
    for _ in range(4):
        order: list[int] = []
        for span in found:
            owner = {number: draw.randrange(3) for number in span}
            groups = [
                [n for n in span if launches[n].everywhere or owner[n] == group]
                for group in range(3)
            ]
            while any(groups):
                order.append(draw.choice([group for group in groups if group]).pop(0))
        assert run(launches, order) == wanted


def test_a_barrier_stands_only_before_a_launch_that_needs_it() -> None:
    for seed in range(60):
        launches = random_launches(random.Random(seed), 12)
        for span, following in pairwise(spans(next_barriers(launches))):
            new = launches[following[0]]
            before = [launches[number] for number in span]
            assert any(clash(new, launch) for launch in before)


def clash(one: Accesses, other: Accesses) -> bool:
    """Whether two launches touch a byte that one of them writes."""
    bytes_of = lambda places: {(p, b) for p, s, e in places for b in range(s, e)}  # noqa: E731
    touched = [bytes_of([*item.reads, *item.writes]) for item in (one, other)]
    return bool(bytes_of(one.writes) & touched[1] or bytes_of(other.writes) & touched[0])


def test_what_is_combined_in_place_is_not_done_by_each_group() -> None:
    """Each would add its numbers to the same memory again."""
    found = mgn.parse("""graph g(x: i32[100000], i: i32[4000], s: i32[4000], q: i32[4000]) {
  y = scatter_along(x, i, s)
  z = cumsum(gather(y, q, axis = 0))
  return w = cumsum(z * 3) * z
}""").lower()
    compile_graph(found, DEVICES["nvidia-h200"])
    operations = list(found.body.block.ops)
    combining = {
        op.sym_name.data
        for op in operations
        if isinstance(op, FuncOp) and any(isinstance(inner, CombineAtOp) for inner in op.walk())
    }
    (program,) = [op for op in operations if isinstance(op, ProgramOp)]
    stages = [stage for op in program.residents for stage in op.stages]
    (stage,) = [stage for stage in stages if stage.kernel_name in combining]
    assert EVERYWHERE not in stage.attributes
