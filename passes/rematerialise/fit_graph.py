"""A graph's launches brought into a budget of device memory.

In: a graph of launches, its program as it is without a budget, what kernels cost and may write in
place. Out: the graph with its launches in another order, or some of them twice, where that is
needed, and an `Outcome`. MgnError where no plan was found that fits.

What counts: the arena, and all that lies beside it in a run of the graph alone: inputs, parameters,
states, constants, and what is derived from parameters and kept.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from mgn.diagnostics import MgnError, spelled
from mgn.dialects.fusion import LaunchOp
from mgn.dialects.kernel.buffers import byte_size
from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.plan import ProgramOp
from mgn.dialects.plan import buffers as plan_buffers
from mgn.dialects.plan import states as plan_states
from mgn.dialects.plan import steps as plan_steps
from mgn.passes.liveness import Pairs
from mgn.passes.rematerialise.budget import bytes_text
from mgn.passes.rematerialise.fit import Fitted, fit
from mgn.passes.rematerialise.launches import Launches, write
from mgn.passes.rematerialise.tasks import intervals_of, live_bytes
from mgn.passes.states_in_place import states_in_place

HOLDERS: dict[type[Operation], str] = {
    plan_buffers.InputOp: "inputs",
    plan_buffers.ParamOp: "parameters",
    plan_buffers.ConstantOp: "constants",
    plan_buffers.DerivedOp: "derived parameters",
    plan_states.StateOp: "states",
}
"""What lies outside the arena, and how it is called."""


@dataclass(frozen=True)
class Outcome:
    """How a graph got into its budget.

    `order` has the number of the launch that each launch of a run was; `repeated` the kernels that
    run again and how often. `seconds` is what these take by their prices, `bound` the least that
    the programme says of its order, `total` what all launches take. `early` says that states are
    written before all else is done.
    """

    budget: int
    beside: int
    order: tuple[int, ...]
    repeated: tuple[tuple[str, int, float], ...] = ()
    seconds: float = 0.0
    bound: float = 0.0
    total: float = 0.0
    early: bool = False


@dataclass(frozen=True)
class Kernels:
    """What is known of kernels by their names: arguments that may be written in place, results
    that start as an argument, and seconds.
    """

    in_place: Pairs
    starting: Pairs
    seconds: Mapping[str, float]


def fit_graph(
    graph: GraphOp,
    program: ProgramOp,
    launches: Sequence[LaunchOp],
    derived: set[SSAValue],
    kernels: Kernels,
    budget: int,
) -> Outcome:
    """Has the program of a graph take no more than its budget; `launches` are those of each run."""
    held = held_bytes(program)
    beside = sum(held.values())
    numbers = range(len(launches))
    total = sum(kernels.seconds.get(launch.kernel_name, 0.0) for launch in launches)
    if program.arena_bytes + beside <= budget:
        return Outcome(budget, beside, tuple(numbers), total=total)
    alignment = program.alignment_bytes
    ways = [
        _launches(graph, launches, derived, kernels, alignment, early) for early in (False, True)
    ]
    problems = [way.problem(bool(early)) for early, way in enumerate(ways)]
    if not launches:
        raise MgnError(_refusal(graph, budget, held, program.arena_bytes, ""))
    fitted = fit(problems, budget - beside)
    way = ways[fitted.early]
    if fitted.arena + beside > budget:
        raise MgnError(_refusal(graph, budget, held, fitted.arena, _peak(way, fitted)))
    place = {launch: number for number, launch in enumerate(launches)}
    order = tuple(place[way.launches[run.task]] for run in fitted.plan.runs)
    again = Counter(launches[run].kernel_name for run in _repeated(way, fitted, place))
    write(graph, way.launches, way.values, fitted.plan)
    repeated = tuple(
        (name, count, count * kernels.seconds.get(name, 0.0)) for name, count in again.items()
    )
    seconds = fitted.seconds
    return Outcome(budget, beside, order, repeated, seconds, fitted.bound, total, fitted.early)


def held_bytes(program: ProgramOp) -> dict[str, int]:
    """The bytes of what lies outside the arena, by what it is; what preparing launches alone name
    is there only while they run.
    """
    found: dict[str, int] = {}
    for op in program.body.block.ops:
        name = HOLDERS.get(type(op))
        if name is None:
            continue
        users = [use.operation for use in op.results[0].uses]
        passes = isinstance(op, plan_buffers.ParamOp | plan_buffers.DerivedOp)
        if passes and users and all(isinstance(user, plan_steps.PrepareOp) for user in users):
            continue
        found[name] = found.get(name, 0) + byte_size(op.results[0].type)
    return found


def _launches(
    graph: GraphOp,
    launches: Sequence[LaunchOp],
    derived: set[SSAValue],
    kernels: Kernels,
    alignment: int,
    early: bool,
) -> Launches:
    """The launches and what of them lies in states; those that only write states stand last."""
    ordered = _sunk(graph, launches) if early else list(launches)
    held = states_in_place(graph, ordered, kernels.starting, kernels.in_place, early)
    results = [value for _, value in graph.named_results]
    results += [value for _, value in graph.named_written if value not in held]
    kept = [value for value in results if value not in derived]
    places = (kernels.in_place, kernels.starting, held)
    return Launches(graph, ordered, *places, kept, kernels.seconds, alignment)


def _sunk(graph: GraphOp, launches: Sequence[LaunchOp]) -> list[LaunchOp]:
    """The same with those last that make what is left in states, and that no other waits for."""
    left = {value for _, value in graph.named_written}
    sunk: set[Operation] = {graph.return_op}
    for launch in reversed(launches):
        readers = [use.operation for item in launch.outputs for use in item.uses]
        if left.issuperset(launch.outputs) and sunk.issuperset(readers):
            sunk.add(launch)
    first = [launch for launch in launches if launch not in sunk]
    return first + [launch for launch in launches if launch in sunk]


def _repeated(way: Launches, fitted: Fitted, place: Mapping[LaunchOp, int]) -> list[int]:
    return [place[way.launches[task]] for task in fitted.plan.repeated]


def _peak(way: Launches, fitted: Fitted) -> str:
    """What holds the arena where it is fullest."""
    problem = way.problem(fitted.early)
    steps = len(fitted.plan.runs)
    live = live_bytes(intervals_of(problem, fitted.plan), steps)
    step = min(live.index(max(live)), steps - 1)
    kernel = way.launches[fitted.plan.runs[step].task].kernel_name
    making = {
        copy: way.launches[run.task].kernel_name for run in fitted.plan.runs for copy in run.writes
    }
    last = {copy: number for number, run in enumerate(fitted.plan.runs) for copy in run.reads}
    last |= dict.fromkeys(fitted.plan.kept.values(), steps)
    alive = [
        copy
        for run in fitted.plan.runs[: step + 1]
        for copy in run.writes
        if last.get(copy, -1) >= step or run is fitted.plan.runs[step]
    ]
    largest = sorted(alive, key=lambda copy: -problem.sizes[copy[0]])[:3]
    listed = ", ".join(
        f"{bytes_text(problem.sizes[copy[0]])} by @{making[copy]}" for copy in largest
    )
    return f"; it is fullest at @{kernel}, with {listed}"


def _refusal(graph: GraphOp, budget: int, held: Mapping[str, int], arena: int, peak: str) -> str:
    """What is said where there is no room."""
    least = arena + sum(held.values())
    parts = [f"{bytes_text(size)} of {name}" for name, size in held.items() if size]
    parts.append(f"an arena of {bytes_text(arena)}")
    tips = ["a smaller batch", "bf16 or f16 parameters"]
    if held.get("derived parameters"):
        off = spelled("prepare=False", "--prepare off")
        tips.insert(0, f"{off}, which keeps no derived parameters")
    return (
        f"graph '{graph.sym_name.data}' does not fit into {bytes_text(budget)} of device memory: "
        f"the least found is {bytes_text(least)} ({least} bytes), {', '.join(parts)}{peak}. "
        f"What helps: a budget of {least} bytes, {', '.join(tips)}"
    )
