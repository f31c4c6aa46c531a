"""What to keep and what to compute again, as an integer programme over the stages of an order.

In: `Stages` and the bytes that the arena may have. Out: a `Plan`, with a lower bound of the seconds
that plans of these stages take.

There are two sorts of variables. One is for a value and two successive stages of those in which the
value matters: it says whether the value is kept between them. The other is for a task and a stage
in which it may run again: it says whether it does. Rows say that a value which is read is kept or
made again, and that a value which is kept was there. At each place of the order, a row says that
the values which live there take no more than the budget. HiGHS finds the least seconds of repeated
tasks, to `GAP`.

Rows of places are added where a solution breaks them, as few of thousands matter (cutting planes).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mgn.passes.rematerialise.stages import Stages
from mgn.passes.rematerialise.tasks import Copy, Plan, Run
from mgn.passes.simplex import is_optimal, run_simplex

OPTIONS = {"output_flag": False, "threads": 1, "random_seed": 0, "mip_max_nodes": 200}
MOST_EXACT = 500
"""Variables up to which HiGHS decides on whole numbers; beyond, parts are rounded."""

ROWS_A_ROUND = 12
"""Places whose rows are added at a time."""

NEARLY, NOTHING, HALF = 1e-6, 1e-7, 0.5
DECIDED, MOST_DECISIONS = 4, 400
"""A decision in so many is taken at a time; and the most times."""

SHARES = (0.1, 0.3, 0.5, 0.7, 0.99)
"""Parts from which on a decision in parts is taken for a whole one: more plans to look at."""

OVER = 1e3
"""What it costs to take twice the budget, in the seconds of all tasks."""

Row = dict[int, float]


@dataclass
class Solution:
    """What is kept in some plans, by variable; the least seconds that repeated tasks take; and
    whether the programme has room.
    """

    chosen: list[np.ndarray]
    bound: float
    fits: bool


@dataclass
class Programme:
    """The variables and rows of the programme. Column 0 is what is taken beyond the budget."""

    stages: Stages
    room: int
    kept: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    again: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    columns: int = 1
    events: list[list[int]] = field(default_factory=list[list[int]])
    _known: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        problem = self.stages.problem
        self.events = [self.stages.events(item) for item in range(len(problem.sizes))]
        for value, events in enumerate(self.events):
            for stage in events[1:]:
                self.kept[value, stage] = self._column()
        for pair in self.stages.repeats:
            self.again[pair] = self._column()
        self._looked_at: list[list[tuple[int, int | None]]] = [
            [] for _ in range(self.stages.count + 1)
        ]
        for value, events in enumerate(self.events):
            for event, following in zip(events, [*events[1:], None], strict=True):
                column = None if following is None else self.kept[value, following]
                self._looked_at[event + 1].append((value, column))
        self._profile = _Profile(self)
        self._solver: Any = None

    def _column(self) -> int:
        self.columns += 1
        return self.columns - 1

    def into(self, value: int, stage: int) -> int | None:
        """The variable that says whether a value is there when a stage begins."""
        for event in self.events[value][1:]:
            if event >= stage:
                return self.kept[value, event]
        return None

    def solve(self) -> Solution:
        """The plans that rounding comes to, and the bound that the programme has without it."""
        self._solver = solver = self._new_solver()
        values = self._relaxed()
        least = solver.getInfo().objective_function_value if is_optimal(solver) else 0.0
        bound = least * self._unit
        chosen = [values >= share for share in SHARES] + [self._least()]
        if values[0] > NOTHING:
            return Solution(chosen, 0.0, False)
        if self.columns <= MOST_EXACT:
            exact, least = self._exact()
            return Solution(
                [*([] if exact is None else [exact > HALF]), *chosen], max(bound, least), True
            )
        rounded = self._rounded(values)
        if rounded is not None:
            chosen.insert(0, rounded > HALF)
        return Solution(chosen, bound, True)

    def _least(self) -> np.ndarray:
        """What is kept where all is made again that may be."""
        chosen = np.zeros(self.columns, bool)
        for (value, event), column in self.kept.items():
            chosen[column] = (self.stages.problem.maker[value], event) not in self.again
        return chosen

    def _exact(self) -> tuple[np.ndarray | None, float]:
        """The best solution that branching finds in `MOST_NODES`, and the bound that it proves."""
        import highspy

        for position in range(len(self.stages.order)):
            if position not in self._known:
                self._known.add(position)
                row, rest = self._profile.row(position), self._profile.rest(position)
                self._add_row(row, -np.inf, rest)
        for column in range(1, self.columns):
            self._solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        self._solver.run()
        info = self._solver.getInfo()
        values = np.array(self._solver.getSolution().col_value)
        is_found = len(values) == self.columns and values[0] <= NEARLY
        least = float(info.mip_dual_bound) * self._unit
        return values if is_found else None, least if np.isfinite(least) else 0.0

    def _relaxed(self) -> np.ndarray:
        """The solution in parts of decisions, with the rows of all places that matter to it."""
        while True:
            run_simplex(self._solver)
            values = np.array(self._solver.getSolution().col_value)
            broken = [item for item in self._profile.broken(values) if item not in self._known]
            if not broken:
                return values
            self._known.update(broken)
            for position in broken:
                row, rest = self._profile.row(position), self._profile.rest(position)
                self._add_row(row, -np.inf, rest)

    def _rounded(self, values: np.ndarray) -> np.ndarray | None:
        """The solution with whole decisions on what is kept: those nearest to whole numbers are
        taken, a part of them at a time, and the rest decided again. None where there is no room.
        """
        kept = np.array(sorted(self.kept.values()))
        for _ in range(MOST_DECISIONS):
            parts = np.minimum(values[kept], 1.0 - values[kept])
            open = kept[parts > NEARLY]
            if not len(open):
                return values
            near = np.minimum(values[open], 1.0 - values[open])
            first = open[np.lexsort((open, near))]
            for chosen in (first[: max(len(first) // DECIDED, 1)], first[:1]):
                for target in (np.round(values[chosen]), np.zeros(len(chosen))):
                    self._bound(chosen, target, target)
                    following = self._relaxed()
                    if following[0] <= NOTHING:
                        break
                    self._bound(chosen, np.zeros(len(chosen)), np.ones(len(chosen)))
                else:
                    continue
                break
            else:
                return None
            values = following
        return None

    def _bound(self, columns: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> None:
        self._solver.changeColsBounds(len(columns), columns.astype(np.int32), lower, upper)

    @property
    def _unit(self) -> float:
        """Seconds that cost 1."""
        return sum(task.seconds for task in self.stages.problem.tasks) or 1.0

    def _new_solver(self) -> Any:
        import highspy

        tasks = self.stages.problem.tasks
        costs = np.zeros(self.columns)
        costs[0] = OVER
        for (task, _), column in self.again.items():
            costs[column] = tasks[task].seconds / self._unit
        upper = np.ones(self.columns)
        upper[0] = np.inf
        rows = self._rows()
        entries = [sorted(row.items()) for row, _ in rows]
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = self.columns, len(rows)
        model.col_cost_, model.col_lower_, model.col_upper_ = costs, np.zeros(self.columns), upper
        model.row_lower_ = np.array([lower for _, lower in rows])
        model.row_upper_ = np.full(len(rows), np.inf)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        starts = np.cumsum([0, *map(len, entries)])
        model.a_matrix_.start_ = starts.astype(np.int32)
        flat = [entry for row in entries for entry in row]
        model.a_matrix_.index_ = np.array([column for column, _ in flat], dtype=np.int32)
        model.a_matrix_.value_ = np.array([value for _, value in flat])
        solver = highspy.Highs()
        for name, value in OPTIONS.items():
            solver.setOptionValue(name, value)
        solver.passModel(model)
        return solver

    def _add_row(self, row: Row, lower: float, upper: float) -> None:
        columns = np.array(sorted(row), dtype=np.int32)
        values = np.array([row[column] for column in sorted(row)])
        self._solver.addRow(lower, upper, len(columns), columns, values)

    def _rows(self) -> list[tuple[Row, float]]:
        """What a solution has to obey besides the budget: rows, and the least that each may be."""
        rows: list[tuple[Row, float]] = []
        stages, tasks = self.stages, self.stages.problem.tasks
        for value, events in enumerate(self.events):
            task = stages.problem.maker[value]
            for number, event in enumerate(events[1:], 1):
                there: Row = {self.kept[value, event]: 1.0}
                if (task, event) in self.again:
                    there[self.again[task, event]] = 1.0
                if event in stages.needs[value]:
                    rows.append((there, 1.0))
                if number + 1 < len(events):
                    rows.append(({**there, self.kept[value, events[number + 1]]: -1.0}, 0.0))
        for (task, stage), column in self.again.items():
            for value in sorted(set(tasks[task].reads)):
                if stages.made(value) == stage:
                    continue
                there = {self.kept[value, stage]: 1.0, column: -1.0}
                maker = stages.problem.maker[value]
                if (maker, stage) in self.again:
                    there[self.again[maker, stage]] = 1.0
                rows.append((there, 0.0))
        return rows

    def plan(self, chosen: np.ndarray) -> Plan:
        """The runs of a solution: what is there no more is made again where it is read first."""
        stages, problem = self.stages, self.stages.problem
        there: dict[int, Copy] = {}
        made = [0] * len(problem.sizes)
        runs: list[Run] = []
        begins: list[int] = []

        def run(task: int) -> None:
            row = problem.tasks[task]
            for item in row.reads:
                if item not in there:
                    run(problem.maker[item])
            reads = tuple([there[item] for item in row.reads])
            copies = tuple([(item, made[item]) for item in row.writes])
            for item, copy in zip(row.writes, copies, strict=True):
                made[item] += 1
                there.setdefault(item, copy)
            runs.append(Run(task, reads, copies))

        for stage in range(stages.count):
            for item, column in self._looked_at[stage]:
                if column is None or not chosen[column]:
                    there.pop(item, None)
            begins.append(len(runs))
            for position in range(stages.begin(stage), stages.begin(stage + 1)):
                run(stages.order[position])
        for item in sorted(problem.kept):
            if item not in there:
                run(problem.maker[item])
        return Plan(runs, {item: there[item] for item in sorted(problem.kept)}, begins)

    def gap(self, value: int, event: int) -> tuple[int, int]:
        """The stages between an event of a value and the one before it: behind which it is kept or
        not, and in which it is there again.
        """
        events = self.events[value]
        return events[events.index(event) - 1], event


class _Profile:
    """What lives at each place of the order: variables by their bytes, and bytes that are always
    there; all in shares of the budget.
    """

    def __init__(self, programme: Programme) -> None:
        stages = programme.stages
        problem, length = stages.problem, len(stages.order)
        self.rows: list[Row] = [{} for _ in range(length)]
        self.fixed = [0.0] * length
        self._programme = programme
        replaced = _replaced(stages)
        for value in range(len(problem.sizes)):
            for stage in range(stages.made(value), programme.events[value][-1] + 1):
                self._enter(value, stage, replaced)
        columns = [column for row in self.rows for column in row]
        self._columns = np.array(columns, dtype=np.int64)
        self._bytes = np.array([item for row in self.rows for item in row.values()])
        places = [position for position, row in enumerate(self.rows) for _ in row]
        self._places = np.array(places, dtype=np.int64)
        self._always = np.array(self.fixed)

    def _enter(self, value: int, stage: int, replaced: Mapping[int, set[int]]) -> None:
        """What a value takes in a stage."""
        programme, stages = self._programme, self._programme.stages
        task = stages.problem.maker[value]
        begin, end = stages.begin(stage), stages.begin(stage + 1)
        before, behind = programme.into(value, stage), programme.into(value, stage + 1)
        again = programme.again.get((task, stage))
        first, last = stages.asked[value].get(stage, (end, begin - 1))
        if stage == stages.made(value):
            begin = first = stages.place[task]
            last = max(last, begin)
            before = None
        elif again is not None:
            first = min(first, stages.repeats[task, stage])
        if last < end and value in replaced.get(last, ()):
            last -= 1
        for position in range(begin, end):
            if position < first:
                self._add(position, value, before)
            elif position > last:
                self._add(position, value, behind)
            elif before is None:
                self._add(position, value, 0)
            else:
                self._add(position, value, before)
                if again is not None:
                    self._add(position, value, again)

    def _add(self, position: int, value: int, column: int | None) -> None:
        share = self._programme.stages.problem.sizes[value] / self._programme.room
        if column == 0:
            self.fixed[position] += share
        elif column is not None:
            row = self.rows[position]
            row[column] = row.get(column, 0.0) + share

    def row(self, position: int) -> Row:
        """What lives at a place, less what is taken beyond the budget."""
        return {0: -1.0, **self.rows[position]}

    def rest(self, position: int) -> float:
        """The part of the budget that is left for what may live there."""
        return 1.0 - self.fixed[position]

    def broken(self, values: Sequence[float] | np.ndarray) -> list[int]:
        """The places at which most lives, of those at which it is more than a solution may take."""
        taken = self._always + np.bincount(
            self._places, self._bytes * np.asarray(values)[self._columns], len(self.fixed)
        )
        most = 1.0 + float(values[0]) + 1e-6
        before, behind = np.append(0.0, taken[:-1]), np.append(taken[1:], 0.0)
        (peaks,) = np.nonzero((taken > most) & (taken >= before) & (taken >= behind))
        return peaks[np.lexsort((peaks, -taken[peaks]))][:ROWS_A_ROUND].tolist()


def _replaced(stages: Stages) -> dict[int, set[int]]:
    """The values whose place a task may take that reads them, by the task's place."""
    found: dict[int, set[int]] = {}
    problem = stages.problem
    for position, number in enumerate(stages.order):
        taken: set[int] = set()
        for read, written in problem.tasks[number].over:
            if written not in taken and read not in found.get(position, ()):
                taken.add(written)
                found.setdefault(position, set()).add(read)
    return found
