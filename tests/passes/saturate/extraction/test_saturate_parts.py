"""Problems of choosing kernels: each step on the way to the cheapest choice keeps it."""

import random
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from math import inf

import pytest

from mgn.dialects.fusion import KernelKind
from mgn.passes.saturate.candidates.candidates import CandidateSet, Template
from mgn.passes.saturate.extraction import branching, exact, relaxation
from mgn.passes.saturate.extraction.components import (
    LocalProblem,
    components_of,
    tangled_classes,
)
from mgn.passes.saturate.extraction.elimination import Elimination, full_prices, good_choice
from mgn.passes.saturate.extraction.exact import ExactSolver, cost_of
from mgn.passes.saturate.extraction.extract import extract
from mgn.passes.saturate.extraction.long_problems import cheapest_choice
from mgn.passes.saturate.extraction.necessity import bits_of, necessity_of
from mgn.passes.saturate.extraction.pruning import parts_of
from mgn.passes.saturate.extraction.purchases import Market, Purchases
from mgn.passes.saturate.extraction.relaxation import Program
from mgn.passes.saturate.extraction.rings import order_of
from mgn.passes.saturate.extraction.selection import price_from
from mgn.passes.saturate.extraction.solver import run_within
from mgn.passes.saturate.extraction.work import PIVOT, Work
from mgn.passes.saturate.prices.forms import Form


@cache
def random_problem(seed: int) -> LocalProblem:
    """Up to six classes and twelve candidates, of which many write several classes, and some read
    what comes after these.
    """
    rng = random.Random(seed)
    while True:
        count = rng.randint(2, 6)
        results: list[tuple[int, ...]] = []
        inputs: list[tuple[int, ...]] = []
        prices: list[float] = []
        for key in range(count):
            for _ in range(rng.randint(1, 3)):
                written = {key, *(item for item in range(count) if rng.random() < 0.2)}
                likely = [0.4 if item < key else 0.12 for item in range(count)]
                read = {item for item in range(count) if rng.random() < likely[item]} - written
                results.append(tuple(sorted(written)))
                inputs.append(tuple(sorted(read)))
                price = rng.choice([rng.uniform(1, 4), float(rng.randint(1, 4))])
                prices.append(price + len(written) / 2)
        demands = tuple(sorted(rng.sample(range(count), rng.randint(1, min(3, count)))))
        problem = LocalProblem(demands, tuple(results), tuple(inputs), tuple(prices))
        if len(prices) <= 12 and least_cost(problem, acyclic=True) < inf:
            return problem


def closed_choices(problem: LocalProblem) -> Iterator[tuple[int, ...]]:
    """All sets of candidates that write what is demanded and what they read."""
    numbers = range(len(problem.prices))
    for size in range(len(numbers) + 1):
        for chosen in combinations(numbers, size):
            written = {item for number in chosen for item in problem.results[number]}
            needed = {item for number in chosen for item in problem.inputs[number]}
            if written.issuperset(needed.union(problem.demands)):
                yield chosen


def least_cost(problem: LocalProblem, acyclic: bool = False) -> float:
    """The least cost of all choices, or of those in which no kernel waits for itself."""
    choices = closed_choices(problem)
    return min(
        (cost_of(problem, c) for c in choices if not (acyclic and order_of(problem, c)[1])),
        default=inf,
    )


def enough() -> Work:
    return Work(60.0)


SEEDS = range(60)


@pytest.mark.parametrize(
    ("width", "work", "hub"),
    [(6, 20_000, 64), (2, 20_000, 64), (-1, 0, 64), (-1, 0, 1)],
    ids=["wide", "narrow", "none", "hubs"],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_cheapest_choice_is_what_trying_everything_finds(
    seed: int, width: int, work: int, hub: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where few classes or none are eliminated, so that programs are branched on."""
    monkeypatch.setattr(branching, "HUB", hub)
    monkeypatch.setattr(exact, "WIDTH", width)
    monkeypatch.setattr(exact, "WIDER", 0)
    monkeypatch.setattr(exact, "WORK", work)
    problem = random_problem(seed)
    best = least_cost(problem, acyclic=True)
    solution = cheapest_choice(problem, ExactSolver(enough()))
    assert solution.chosen is not None
    assert not order_of(problem, solution.chosen)[1]
    assert cost_of(problem, solution.chosen) == pytest.approx(best)
    assert solution.bound == pytest.approx(best, rel=1e-5)


def test_rings_of_kernels_are_what_is_tried() -> None:
    dearer = [least_cost(random_problem(s), True) > least_cost(random_problem(s)) for s in SEEDS]
    assert sum(dearer) >= 3


@pytest.mark.parametrize("seed", SEEDS)
def test_leaving_out_candidates_does_not_change_the_least_cost(seed: int) -> None:
    problem = random_problem(seed)
    parts = parts_of(problem)
    assert sum(least_cost(part.problem) for part in parts) == pytest.approx(least_cost(problem))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_forced_class_is_written_by_every_choice(seed: int) -> None:
    problem = random_problem(seed)
    needs = necessity_of(problem)
    for chosen in closed_choices(problem):
        written = {item for number in chosen for item in problem.results[number]}
        assert written.issuperset(bits_of(needs.forced))
        for key in written:
            assert written.issuperset(bits_of(needs.must[key]))


@pytest.mark.parametrize("width", [0, 1, 2, 6])
@pytest.mark.parametrize("seed", SEEDS)
def test_eliminating_classes_does_not_change_the_least_cost(seed: int, width: int) -> None:
    problem = random_problem(seed)
    elimination = Elimination(problem, width, 10_000, 100_000)
    core, trails = elimination.core()
    left = ExactSolver(enough()).solve(core)
    assert left.chosen is not None
    trails = [*elimination.decided, *[trails[number] for number in left.chosen]]
    chosen = elimination.candidates(trails)
    assert elimination.cost + left.bound == pytest.approx(least_cost(problem), rel=1e-5)
    assert cost_of(problem, chosen) == pytest.approx(least_cost(problem))
    assert set(chosen) in map(set, closed_choices(problem))


def test_what_is_only_to_be_had_in_a_ring_is_eliminated_too() -> None:
    """Kernels that wait for each other are told later; here they bound what else there is."""
    problem = LocalProblem((0,), ((0,), (1,), (2,)), ((1,), (2,), (1,)), (1.0, 2.0, 4.0))
    elimination = Elimination(problem, 6, 10_000, 100_000)
    assert elimination.feasible and elimination.cost == least_cost(problem) == 7.0


def test_a_state_that_buys_beside_what_is_there_replaces_a_dearer_one() -> None:
    """A class is 9 with all that it needs, and 2 beside another one that is there."""
    problem = LocalProblem(
        (3,), ((0,), (1,), (2,), (3,)), ((), (0,), (0,), (1, 2)), (7.0, 2.0, 2.0, 1.0)
    )
    inputs = [set(items) for items in problem.inputs]
    full = full_prices(problem, inputs)[0]
    purchases = Purchases(Market(problem, inputs, full), {0: 0, 1: 1})
    assert purchases.bounds(0b10) == (2.0, 9.0)
    assert purchases.price_beside(0b10, 0b01) == 2.0
    assert purchases.price_beside(0b10, 0b00) == 9.0
    assert purchases.price_beside(0b11, 0b00) == 9.0


@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_two_problems_has_the_best_choice(seed: int) -> None:
    problem = random_problem(seed)
    best = pytest.approx(least_cost(problem))
    for number, results in enumerate(problem.results):
        for key in results:
            taken = branching.taken_or_not(problem, key, number)
            written = branching.written_or_not(problem, key)
            assert min(least_cost(part.problem) for part in taken) == best
            assert min(least_cost(part.problem) for part in written) == best


@pytest.mark.parametrize("seed", SEEDS)
def test_a_choice_found_soon_is_a_choice_and_no_cheaper_than_the_best(seed: int) -> None:
    problem = random_problem(seed)
    chosen = good_choice(problem, enough())
    assert chosen is not None
    assert set(chosen) in map(set, closed_choices(problem))
    assert cost_of(problem, chosen) >= least_cost(problem) * (1 - 1e-9)


@pytest.mark.parametrize("dense", [0, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_fractions_cost_no_more_than_the_best_choice_and_leave_it_in(
    seed: int, dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relaxation, "DENSE", dense)
    problem = random_problem(seed)
    best = least_cost(problem)
    found = Program(problem, enough()).relaxed()
    assert found is not None and found.bound <= best * (1 + 1e-7)
    left = found.below(best * 1.01)
    assert least_cost(left.problem) == pytest.approx(best)
    assert least_cost(left.problem) >= best * (1 - 1e-9)


DETOUR = LocalProblem(
    (2,), ((0,), (1,), (1,), (2,), (2,)), ((), (), (0,), (1,), (0,)), (36.0, 36.0, 21.6, 22.9, 22.9)
)
"""Class 2 reads 0, or 1 that may read 0: half of 0 would do for half of each way."""


@pytest.mark.parametrize("dense", [0, 4])
def test_no_half_of_what_is_read_on_one_way_or_another_is_taken(
    dense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the rows of detours are there from the start or wait until fractions violate them."""
    monkeypatch.setattr(relaxation, "DENSE", dense)
    found = Program(DETOUR, enough()).relaxed()
    assert found is not None and found.is_whole
    assert found.bound == pytest.approx(58.9)


def pairs_in_a_ring(count: int) -> LocalProblem:
    """Classes and kernels that write two neighbours, in rings of five: halves of all would do."""
    results = [
        (first + key, first + (key + 1) % 5) for first in range(0, 5 * count, 5) for key in range(5)
    ]
    demands = tuple(range(5 * count))
    return LocalProblem(demands, tuple(results), ((),) * len(results), (1.0,) * len(results))


@pytest.mark.parametrize("eliminated", [True, False])
def test_halves_of_kernels_are_decided(eliminated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not eliminated:
        monkeypatch.setattr(exact, "WORK", 0)
    problem = pairs_in_a_ring(2)
    found = Program(problem, enough()).relaxed()
    assert found is not None and found.bound == pytest.approx(5.0) and not found.is_whole
    solution = ExactSolver(enough()).solve(problem)
    assert solution.chosen is not None and len(solution.chosen) == 6
    assert solution.bound == pytest.approx(6.0)


def test_what_is_left_in_two_equal_places_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rings of one part: they lie apart only once classes are eliminated."""
    monkeypatch.setattr(exact, "WORK", 0)
    programs: list[LocalProblem] = []

    def noted(problem: LocalProblem, work: Work) -> Program:
        programs.append(problem)
        return Program(problem, work)

    monkeypatch.setattr(exact, "Program", noted)
    counts: list[int] = []
    for memoise in (True, False):
        programs.clear()
        solution = ExactSolver(enough(), memoise)._solve_part(pairs_in_a_ring(2), 0)  # pyright: ignore
        assert solution.chosen is not None and len(solution.chosen) == 6
        assert solution.bound == pytest.approx(6.0)
        counts.append(len(programs))
    assert 2 * counts[0] == counts[1]


def test_rows_rounded_from_others_leave_every_choice_in_and_halves_out() -> None:
    """Halves of all kernels of a ring of five cost 2.5, where three whole ones are needed."""
    problem = pairs_in_a_ring(2)
    program = relaxation.Program(problem, enough())
    before = program.relaxed()
    assert before is not None and before.bound == pytest.approx(5.0)
    after = program.tightened(before)
    assert after is not None and after.is_whole and after.bound == pytest.approx(6.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_bound_from_rounded_rows_is_no_more_than_the_best_choice(seed: int) -> None:
    problem = random_problem(seed)
    best = least_cost(problem)
    program = relaxation.Program(problem, enough())
    found = program.relaxed()
    while found is not None:
        assert found.bound <= best * (1 + 1e-7)
        assert least_cost(found.below(best * 1.01).problem) == pytest.approx(best)
        found = None if found.is_whole else program.tightened(found)


@pytest.mark.parametrize("seed", range(20))
def test_halves_of_many_kernels_are_decided_by_rounded_rows_alone(seed: int) -> None:
    """Every class by one of some kernels that write two or three: what has no whole optimum."""
    rng = random.Random(seed)
    results = [tuple(sorted(rng.sample(range(9), rng.randint(2, 3)))) for _ in range(14)]
    results += [(key,) for key in range(9)]
    prices = tuple([rng.uniform(1.0, 1.3) for _ in results])
    problem = LocalProblem(tuple(range(9)), tuple(results), ((),) * len(results), prices)
    program = relaxation.Program(problem, enough())
    found = program.relaxed()
    assert found is not None
    first = found.bound
    while not found.is_whole and (more := program.tightened(found)) is not None:
        assert more.bound >= found.bound * (1 - 1e-7)
        found = more
    best = cost_of(problem, ExactSolver(enough()).solve(problem).chosen or ())
    assert first <= found.bound <= best * (1 + 1e-7)
    assert best - found.bound <= 0.05 * best


@pytest.mark.parametrize("seed", SEEDS)
def test_the_cheapest_choice_is_found_with_rows_rounded_for_few_candidates_too(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "LARGE", 0)
    monkeypatch.setattr(exact, "WIDTH", -1)
    monkeypatch.setattr(exact, "WIDER", 0)
    monkeypatch.setattr(exact, "WORK", 0)
    problem = random_problem(seed)
    best = least_cost(problem, acyclic=True)
    solution = cheapest_choice(problem, ExactSolver(enough()))
    assert solution.chosen is not None
    assert cost_of(problem, solution.chosen) == pytest.approx(best)
    assert solution.bound == pytest.approx(best, rel=1e-5)


def test_without_time_there_is_a_choice_and_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "WORK", 0)
    solver = ExactSolver(Work(0.0))
    solution = solver.solve(pairs_in_a_ring(2))
    assert solver.budget_spent
    assert solution.chosen is not None and len(solution.chosen) >= 6
    assert 0.0 < solution.bound <= 6.0


@pytest.mark.parametrize(
    ("many", "close", "besides", "is_proved"),
    [(4, 0.2, 0.0, False), (5, 0.2, 0.0, True), (4, 0.19, 0.0, True), (4, 0.2, 1e3, True)],
)
def test_the_proof_of_a_close_choice_among_many_may_take_no_more_than_finding_it(
    many: int, close: float, besides: float, is_proved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The linear program of a ring of five allows 2.5 kernels, and the best choice is of 3."""
    monkeypatch.setattr(exact, "WORK", 0)
    monkeypatch.setattr(exact, "MANY", many)
    monkeypatch.setattr(exact, "CLOSE", close + 1e-9)
    monkeypatch.setattr(exact, "BESIDES", besides)
    solver = ExactSolver(Work(100.0))
    solution = solver.solve(pairs_in_a_ring(2))
    assert solution.chosen is not None and len(solution.chosen) == 6
    assert solution.bound == pytest.approx(6.0 if is_proved else 5.0)
    assert solver.budget_spent != is_proved
    assert 50.0 < solver.work.left < 100.0


def test_no_more_work_is_done_than_allowed_and_the_rest_is_left() -> None:
    for left, allowed, there in (
        (5.0, 2.0, 2.0),
        (5.0, 9.0, 5.0),
        (inf, 2.0, inf),
        (-1.0, 2.0, -1.0),
    ):
        work = Work(left)
        with work.at_most(allowed):
            assert work.left == there
            work.did(1, 1.5)
        assert work.left == left - 1.5


def test_where_no_choice_is_near_the_bound_there_is_one_further_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("WORK", 0), ("LARGE", 0), ("NEAREST", ())):
        monkeypatch.setattr(exact, name, value)
    problem = pairs_in_a_ring(2)
    solution = ExactSolver(enough()).solve(problem)
    assert solution.chosen is not None and cost_of(problem, solution.chosen) >= solution.bound


def test_a_solver_stops_where_no_work_is_left_and_goes_on_from_there() -> None:
    program = Program(pairs_in_a_ring(40), enough())
    rows = program.solver.getNumRow()
    little = Work(1.5 * PIVOT * rows)
    assert not run_within(program.solver, little)
    assert program.solver.getInfo().simplex_iteration_count == 1
    assert little.left < 0.5 * PIVOT * rows
    assert not run_within(program.solver, little)
    assert run_within(program.solver, enough())


def test_what_nobody_reads_once_a_better_candidate_is_there_goes_too() -> None:
    direct, through, before = (2,), (2,), (1,)
    problem = LocalProblem((2,), (direct, through, before), ((), (1,), ()), (2.0, 2.0, 1.0))
    (part,) = parts_of(problem)
    assert part.candidates == (0,)


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
    (part,) = components_of(found)
    assert part.candidates == (0, 1, 2, 3, 4)


def test_of_kernels_that_wait_for_each_other_the_one_is_left_out_that_costs_least() -> None:
    found = extract(choice_of(IN_A_RING, (0, 1, 2)))
    assert found.selection.cost == pytest.approx(2.0 + 1.5)
    assert found.bound <= 3.5


def test_what_it_takes_to_obtain_a_value_from_others_is_the_least_of_few_kernels() -> None:
    """Class 3 is written from 2, or for more from 0; 2 from 1 and 0, or from itself and 0."""
    kernels = (((3,), (2,), 1.0), ((3, 4), (0,), 5.0), ((2,), (0, 1), 2.0), ((1,), (0,), 1.5))
    found = choice_of((*kernels, ((2,), (0, 2), 0.5), ((0,), (5,), 9.0), ((5,), (), 0.0)), ())
    assert price_from(found, {3}, 3) == 0.0
    assert price_from(found, {2}, 3) == 1.0
    assert price_from(found, {0, 1}, 3) == 3.0
    assert price_from(found, {0}, 3, in_a_row=3) == 4.5
    assert price_from(found, {0}, 3) == 5.0
    assert price_from(found, {1, 5}, 3) == 14.0
    assert price_from(found, {1}, 3) == inf


def test_a_class_that_two_kernels_write_is_read_from_the_first_where_the_other_waits() -> None:
    """Kernel 1 writes class 0 again, after kernel 2, which reads it."""
    kernels = (
        ((0,), (), 1.0), ((1, 0), (2,), 2.0), ((2,), (0,), 1.0), ((1,), (), 50.0), ((2,), (), 50.0),
    )  # fmt: skip
    found = extract(choice_of(kernels, (1, 2)))
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
def test_a_table_that_ties_equal_layers_is_decided_with_all_of_them(price: float) -> None:
    problem = tied_layers(100, price)
    solution = ExactSolver(enough()).solve(problem)
    assert solution.chosen is not None
    assert cost_of(problem, solution.chosen) == pytest.approx(min(500 * 1.0 + price, 500 * 1.1))
    assert solution.bound == pytest.approx(min(500 * 1.0 + price, 500 * 1.1))
