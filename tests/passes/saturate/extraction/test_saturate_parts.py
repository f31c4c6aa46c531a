"""Problems of choosing kernels fall apart, at no loss: leaving out, cutting, bounding."""

import random
import time
from typing import Any

import pytest

from mgn.dialects.fusion import KernelKind
from mgn.passes.saturate.candidates.candidates import CandidateSet, Template
from mgn.passes.saturate.extraction import exact, integer_program
from mgn.passes.saturate.extraction.components import (
    Choices,
    LocalProblem,
    components_of,
    groups_of,
    split,
    tangled_classes,
)
from mgn.passes.saturate.extraction.decomposition import falls_apart, solve_pieces
from mgn.passes.saturate.extraction.extract import extract
from mgn.passes.saturate.extraction.frontier import MANY, cheapest_choice
from mgn.passes.saturate.extraction.hubs import PIECE, cut_at_hubs
from mgn.passes.saturate.extraction.integer_program import (
    LocalSolution,
    Program,
    order_of,
    ring_of,
    solve_integer_program,
)
from mgn.passes.saturate.extraction.necessity import bits_of, necessity_of
from mgn.passes.saturate.extraction.pruning import parts_of
from mgn.passes.saturate.prices.forms import Form


def random_problem(seed: int) -> LocalProblem:
    """Up to twelve classes, the last two demanded; candidates read smaller classes."""
    rng = random.Random(seed)
    count = rng.randint(3, 12)
    results, inputs, prices = [], [], []
    for key in range(count):
        for _ in range(rng.randint(1, 4)):
            extra = [item for item in range(key) if rng.random() < 0.2]
            first = min(extra, default=key)
            needs = [item for item in range(first) if rng.random() < 0.4]
            results.append((key, *extra))
            inputs.append(tuple(needs))
            prices.append(rng.uniform(1, 4) + len(extra))
    return LocalProblem((count - 2, count - 1), tuple(results), tuple(inputs), tuple(prices))


def least_cost(problem: LocalProblem) -> float:
    chosen = cheapest_choice(problem, MANY)
    assert chosen is not None
    return sum(problem.prices[number] for number in chosen)


@pytest.mark.parametrize("seed", range(60))
def test_leaving_out_candidates_does_not_change_the_least_cost(seed: int) -> None:
    problem = random_problem(seed)
    parts = parts_of(problem)
    assert sum(least_cost(part.problem) for part in parts) == pytest.approx(least_cost(problem))


@pytest.mark.parametrize("seed", range(60))
def test_a_forced_class_is_written_by_the_best_choice(seed: int) -> None:
    problem = random_problem(seed)
    needs = necessity_of(problem)
    chosen = cheapest_choice(problem, MANY)
    assert chosen is not None
    written = {item for number in chosen for item in problem.results[number]}
    assert written.issuperset(bits_of(needs.forced))


@pytest.mark.parametrize("seed", range(60))
def test_the_program_finds_the_least_cost_though_candidates_write_the_same_class(seed: int) -> None:
    problem = random_problem(seed)
    solution = solve_integer_program(problem, 10.0)
    assert solution.chosen is not None
    cost = sum(problem.prices[number] for number in solution.chosen)
    assert cost == pytest.approx(least_cost(problem), rel=1e-4)
    assert solution.bound <= cost * (1 + 1e-9)
    assert solution.bound >= cost * (1 - 1e-4)


DETOUR = LocalProblem(
    (2,), ((0,), (1,), (1,), (2,), (2,)), ((), (), (0,), (1,), (0,)), (36.0, 36.0, 21.6, 22.9, 22.9)
)
"""Class 2 reads 0, or 1 that may read 0: half of 0 would do for half of each way."""
RING = LocalProblem(
    (0, 1, 2, 3, 4), tuple((key, (key + 1) % 5) for key in range(5)), ((),) * 5, (1.0,) * 5
)
"""Five classes and kernels that write two neighbours: halves of all five would do."""


@pytest.mark.parametrize(("problem", "cost"), [(DETOUR, 58.9), (RING, 3.0)])
def test_the_optimum_is_whole_though_fractions_of_kernels_are_allowed(
    problem: LocalProblem, cost: float
) -> None:
    solution = Program(problem, float("inf")).relaxed()
    assert solution is not None
    assert solution.bound == pytest.approx(cost)
    assert sum(problem.prices[number] for number in solution.chosen or ()) == pytest.approx(cost)


def test_rows_of_detours_that_fractions_violate_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_program, "DENSE", 0)
    program = Program(DETOUR, float("inf"))
    few = len(program.rows.lower)
    solution = program.relaxed()
    assert solution is not None and solution.bound == pytest.approx(58.9)
    assert len(program.rows.lower) == few + len(program.detours.lower) == few + 1


@pytest.mark.parametrize("seed", range(200, 260))
def test_what_pieces_cost_bounds_every_choice(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_program, "odd_set_rows", lambda *_: ())
    monkeypatch.setattr(integer_program, "path_rows", lambda *_: ())
    problem = random_problem(seed)
    program = Program(problem, time.process_time() + 10.0)
    with_fractions = program.relaxed() or LocalSolution(None, program.bound)
    bound = solve_pieces(program, {}).bound
    program.relaxed()
    best = least_cost(problem) * (1 + 1e-9)
    assert with_fractions.bound <= bound <= best
    assert with_fractions.bound <= program.bound <= best


def rings_of_five(count: int) -> LocalProblem:
    """`RING` often, each on classes of its own, whose kernels all read one more."""
    results: list[tuple[int, ...]] = [(0,)]
    inputs: list[tuple[int, ...]] = [()]
    prices = [0.25]
    for first in range(1, 1 + 5 * count, 5):
        for key in range(5):
            results.append((first + key, first + (key + 1) % 5))
            inputs.append((0,))
            prices.append(1.0)
    return LocalProblem(tuple(range(1 + 5 * count)), tuple(results), tuple(inputs), tuple(prices))


def test_pieces_around_fractions_find_the_optimum_that_fractions_hide(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of equal pieces one is solved, and its row is added for all: one has the class of all."""
    monkeypatch.setattr(integer_program, "odd_set_rows", lambda *_: ())
    program = Program(rings_of_five(6), float("inf"))
    assert program.relaxed() is None and program.bound == pytest.approx(6 * 2.5 + 0.25)
    rows, known = len(program.rows.lower), dict[Any, Any]()
    pieces = solve_pieces(program, known)
    assert len(known) == 2
    assert len(program.rows.lower) == rows + 6
    assert pieces.chosen is not None and len(pieces.chosen) == 6 * 3 + 1
    solution = program.relaxed()
    assert program.bound == pytest.approx(6 * 3.0 + 0.25)
    assert solution is None or solution.bound == pytest.approx(6 * 3.0 + 0.25)


def test_fractions_fall_apart_where_no_group_has_most_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(integer_program, "odd_set_rows", lambda *_: ())
    for problem, apart in ((RING, False), (rings_of_five(6), True)):
        program = Program(problem, float("inf"))
        assert program.relaxed() is None
        assert falls_apart(program) is apart


@pytest.mark.parametrize("reads", [2, 3])
def test_rings_are_excluded_before_anything_is_branched_on(reads: int) -> None:
    """Each class is cheap to write from the next one, and dear from nothing."""
    keys = tuple(range(reads))
    results = (*[(key,) for key in keys], *[(key,) for key in keys])
    inputs = (*[((key + 1) % reads,) for key in keys], *[()] * reads)
    prices = (*[1.0] * reads, *[10.0] * reads)
    problem = LocalProblem(keys, results, inputs, prices, keys)
    solution = Program(problem, time.process_time() + 10.0).relaxed()
    assert solution is not None and solution.chosen is not None
    assert not order_of(problem, solution.chosen)[1]
    assert solution.bound == pytest.approx(10.0 + reads - 1)


@pytest.mark.parametrize("seed", range(20))
def test_branching_may_start_from_a_choice_that_is_not_the_best(seed: int) -> None:
    problem = random_problem(seed)
    alone = [n for n, results in enumerate(problem.results) if len(results) == 1]
    start = {problem.results[n][0]: n for n in alone}
    solution = Program(problem, time.process_time() + 10.0).whole(tuple(start.values()))
    assert solution.chosen is not None
    cost = sum(problem.prices[number] for number in solution.chosen)
    assert cost == pytest.approx(least_cost(problem), rel=1e-4)


def test_kernels_that_wait_for_each_other_have_no_order() -> None:
    problem = LocalProblem((0, 1), ((0,), (1,), (2,)), ((1,), (0,), ()), (1.0,) * 3)
    assert order_of(problem, (0, 1, 2)) == ([2], [0, 1])


def test_a_ring_of_kernels_that_wait_for_each_other_is_excluded() -> None:
    """Three classes, each to be had at 1 from the next one, or at 10 from nothing."""
    results, inputs = ((0,), (1,), (2,)) * 2, ((1,), (2,), (0,), (), (), ())
    prices, classes = (1.0, 1.0, 1.0, 10.0, 10.0, 10.0), (0, 1, 2)
    problem = LocalProblem(classes, results, inputs, prices, classes)
    assert set(ring_of(problem, (0, 1, 2))) == {(0, 0), (1, 1), (2, 2)}
    assert ring_of(problem, (0, 1, 5)) == []
    solution = Program(problem, time.process_time() + 10.0).whole()
    assert solution.chosen is not None and not order_of(problem, solution.chosen)[1]
    assert sum(prices[number] for number in solution.chosen) == pytest.approx(12.0)
    assert solution.bound == pytest.approx(12.0, rel=1e-4)


def test_what_fractions_cost_bounds_a_choice_that_there_was_no_time_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(integer_program, "odd_set_rows", lambda *_: ())
    program = Program(RING, float("inf"))
    assert program.relaxed() is None
    monkeypatch.setattr(Program, "_run", lambda *_: None)
    assert program.whole().bound == pytest.approx(2.5)


def test_a_solver_whose_clock_runs_out_first_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    run, runs = Program._run, []  # pyright: ignore

    def hurried(program: Program, solver: Any) -> None:
        runs.append(program)
        if len(runs) > 2:
            run(program, solver)
        else:
            solver.setOptionValue("time_limit", 0.0)
            solver.run()

    monkeypatch.setattr(Program, "_run", hurried)
    solution = Program(DETOUR, float("inf")).relaxed()
    assert solution is not None
    assert len(runs) > 2


@pytest.mark.parametrize("seed", [1717, 532, 1669, 1266, 1004])
def test_a_class_that_all_ways_need_is_not_taken_in_parts(seed: int) -> None:
    problem = random_problem(seed)
    solution = Program(problem, float("inf")).relaxed()
    assert solution is not None
    assert solution.bound == pytest.approx(least_cost(problem))


def layers_with_a_hub(count: int) -> LocalProblem:
    """Layers in which many kernels read one class, some of whose writers read what all share."""
    results, inputs, prices = [(0,)], [()], [1.0]
    for hub in range(1, 2 * count, 2):
        for number in range(27):
            writes = number < 12
            results.append((hub,) if writes else (hub + 1,))
            inputs.append((hub,) if not writes else (0,) if number < 2 else ())
            prices.append(1.0 + number)
    demands = tuple(range(2, 2 * count + 1, 2))
    return LocalProblem(demands, tuple(results), tuple(inputs), tuple(prices))


def test_what_all_layers_read_is_cut_and_what_is_read_within_one_is_not() -> None:
    cut = cut_at_hubs(layers_with_a_hub(12))
    assert cut is not None
    assert cut.hubs == (0,)


def test_pieces_that_are_soon_solved_come_before_those_around_fractions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole program has no optimum here, as one whose fractions fall apart."""
    problem, whole = layers_with_a_hub(24), Program.relaxed
    found = cheapest_choice(problem, MANY)
    assert found is not None
    size = len(problem.prices)

    def relaxed(program: Program) -> LocalSolution | None:
        solution = whole(program)
        return None if len(program.problem.prices) == size else solution

    def searched(problem: LocalProblem, most: int) -> tuple[int, ...] | None:
        return None if len(problem.prices) == size else cheapest_choice(problem, most)

    monkeypatch.setattr(exact, "cheapest_choice", searched)
    monkeypatch.setattr(exact, "falls_apart", lambda program: True)
    monkeypatch.setattr(exact, "solve_pieces", lambda *_: pytest.fail("fractions came first"))
    monkeypatch.setattr(Program, "relaxed", relaxed)
    solver = exact.ExactSolver(CandidateSet(), 60.0)
    solution = solver._solve_core(problem)  # pyright: ignore[reportPrivateUsage]
    assert not solution.open
    assert solution.bound == pytest.approx(sum(problem.prices[number] for number in found))


def test_what_nobody_reads_once_a_better_candidate_is_there_goes_too() -> None:
    direct, through, before = (2,), (2,), (1,)
    problem = LocalProblem((2,), (direct, through, before), ((), (1,), ()), (2.0, 2.0, 1.0))
    (part,) = parts_of(problem)
    assert part.candidates == (0,)


def test_classes_in_a_ring_are_not_free_for_those_who_would_wait_for_them() -> None:
    """Reading the forced class 0 is cheaper, but it is in a ring with what reads it."""
    results, inputs = ((0,), (1,), (1,)), ((1,), (0,), ())
    free = LocalProblem((0, 1), results, inputs, (1.0, 1.0, 3.0))
    ring = LocalProblem((0, 1), results, inputs, (1.0, 1.0, 3.0), (0, 1))
    kept = {number for part in parts_of(free) for number in part.candidates}
    safe = {number for part in parts_of(ring) for number in part.candidates}
    assert 2 not in kept
    assert 2 in safe


Kernels = tuple[tuple[tuple[int, ...], tuple[int, ...], float], ...]
"""What each writes and reads, and its price."""
IN_A_RING: Kernels = (
    ((2, 0), (1,), 2.0), ((1,), (0,), 1.0), ((1,), (), 1.5), ((0,), (), 5.0), ((2,), (), 5.0),
)  # fmt: skip
"""Kernel 0 writes classes 2 and 0 from 1, which kernel 1 writes from 0, and 2 from nothing."""


def choice_of(kernels: Kernels, outputs: tuple[int, ...]) -> CandidateSet:
    found = CandidateSet(position={0: 0, 1: 1, 2: 2}, outputs=outputs)
    for written, read, price in kernels:
        names = (*written, *read)
        own = tuple(range(len(names)))
        results, inputs = own[: len(written)], own[len(written) :]
        form = Form(KernelKind.POINTWISE)
        found.add(Template((), form, results, inputs, inputs, price), names)
    return found


def test_kernels_that_could_wait_for_each_other_are_chosen_together() -> None:
    found = choice_of(IN_A_RING, (0, 1, 2))
    assert tangled_classes(found) == {0, 1}
    (part,) = components_of(found, frozenset())
    assert part.candidates == (0, 1, 2, 3, 4)
    every = {item.number: item for item in found.candidates}
    choices = Choices(
        tuple(every),
        {number: item.results for number, item in every.items()},
        {number: item.inputs for number, item in every.items()},
        {number: item.price for number, item in every.items()},
    )
    assert [len(part.candidates) for part in split(choices, {0, 1, 2}, {0, 1})] == [5]
    assert [len(group.numbers) for group in groups_of(choices, {0, 1, 2}, {0, 1})] == [5]


def test_of_kernels_that_wait_for_each_other_the_one_is_left_out_that_costs_least() -> None:
    found = extract(choice_of(IN_A_RING, (0, 1, 2)), [0, 1, 2])
    assert found.selection.cost == pytest.approx(2.0 + 1.5)
    assert found.bound <= 3.5


def test_a_class_that_two_kernels_write_is_read_from_the_first_where_the_other_waits() -> None:
    """Kernel 1 writes class 0 again, after kernel 2, which reads it."""
    kernels = (
        ((0,), (), 1.0), ((1, 0), (2,), 2.0), ((2,), (0,), 1.0), ((1,), (), 50.0), ((2,), (), 50.0),
    )  # fmt: skip
    found = extract(choice_of(kernels, (1, 2)), [0, 1, 2])
    assert found.selection.kernels == [0, 2, 1]
    assert found.selection.cost == pytest.approx(4.0)
    assert found.bound == pytest.approx(4.0)


def tied_layers(count: int, table_price: float) -> LocalProblem:
    """Layers of five steps with two ways each, one of which reads a table that all share."""
    results, inputs, prices = [(0,)], [()], [table_price]
    demands = []
    for layer in range(count):
        for step in range(5):
            key = 1 + 5 * layer + step
            before = (key - 1,) if step else ()
            results += [(key,), (key,), (key,)]
            inputs += [(*before, 0), before, (*before, *before[:0])]
            prices += [1.0, 1.1, 1.2]
        demands.append(5 * layer + 5)
    return LocalProblem(tuple(demands), tuple(results), tuple(inputs), tuple(prices))


@pytest.mark.parametrize("price", [0.5, 1000.0])
def test_a_table_that_ties_equal_layers_is_cut_without_loss(price: float) -> None:
    problem = tied_layers(100, price)
    cut = cut_at_hubs(problem)
    assert cut is not None
    assert cut.hubs == (0,)
    assert max(len(part.candidates) for part in cut.pieces) <= PIECE
    assert len({part.problem for part in cut.pieces}) == 1
    bound = sum(least_cost(part.problem) for part in cut.pieces)
    assert bound == pytest.approx(min(500 * 1.0 + price, 500 * 1.1))
