"""Orders of launches in which less lives at once.

In: a problem. Out: orders of its tasks. A search for the best order takes exponential time, so
there are a few good ones to compare (list scheduling, as in register allocation):

- eager: what frees as much as it takes runs as soon as it can, else the next of the given order;
- late: the same from the end backwards, so that what takes more than it frees runs as late as it
  can.

Each begins with any order, so that they can follow one another.
"""

from collections.abc import Callable, Iterator, Sequence

from mgn.passes.rematerialise.tasks import Problem


def orders(problem: Problem, given: Sequence[int]) -> Iterator[list[int]]:
    """The given order, and what becomes of it."""
    early, late = eager(problem, given), lazy(problem, given)
    yield list(given)
    yield early
    yield late
    yield eager(problem, late)
    yield lazy(problem, early)


def eager(problem: Problem, given: Sequence[int]) -> list[int]:
    """Runs first what frees the most, if it frees as much as it takes."""
    left = [0] * len(problem.sizes)
    for task in problem.tasks:
        for item in set(task.reads):
            left[item] += 1
    for item in problem.kept:
        left[item] += 1

    def growth(number: int) -> int:
        task = problem.tasks[number]
        taken = sum(problem.sizes[item] for item in task.writes if left[item])
        return taken - sum(problem.sizes[item] for item in set(task.reads) if left[item] == 1)

    def run(number: int) -> None:
        for item in set(problem.tasks[number].reads):
            left[item] -= 1

    return _listed(given, problem.predecessors(), growth, run)


def lazy(problem: Problem, given: Sequence[int]) -> list[int]:
    """The same backwards: what is written is freed, and what is read is taken, unless a later task
    reads it too.
    """
    live = set(problem.kept)

    def growth(number: int) -> int:
        task = problem.tasks[number]
        taken = sum(problem.sizes[item] for item in set(task.reads) if item not in live)
        return taken - sum(problem.sizes[item] for item in task.writes if item in live)

    def run(number: int) -> None:
        task = problem.tasks[number]
        live.difference_update(task.writes)
        live.update(task.reads)

    after: list[set[int]] = [set() for _ in problem.tasks]
    for number, before in enumerate(problem.predecessors()):
        for earlier in before:
            after[earlier].add(number)
    return _listed(given[::-1], after, growth, run)[::-1]


def _listed(
    given: Sequence[int],
    before: Sequence[set[int]],
    growth: Callable[[int], int],
    run: Callable[[int], None],
) -> list[int]:
    """An order of the tasks: of those that may run, the one of least growth where it is at most 0,
    else the first of the given order.
    """
    place = {number: position for position, number in enumerate(given)}
    waits = [len(item) for item in before]
    after: list[list[int]] = [[] for _ in before]
    for number, earlier in enumerate(before):
        for item in earlier:
            after[item].append(number)
    ready = {number for number, count in enumerate(waits) if not count}
    found: list[int] = []
    done = [False] * len(before)
    following = 0
    while ready:
        least, _, best = min((growth(number), place[number], number) for number in ready)
        if least > 0:
            while done[given[following]]:
                following += 1
            best = given[following]
        ready.remove(best)
        done[best] = True
        run(best)
        found.append(best)
        for number in after[best]:
            waits[number] -= 1
            if not waits[number]:
                ready.add(number)
    return found
