"""Which of a graph's values lie where a state does, because kernels write them there.

In: a graph of launches, which results of a kernel start as an argument, and which may take an
argument's place. Out: the state of each value that is written in place.

    %k1 = fusion.launch @update_0(%k, %row, %at)      %k is found in a state, %k1 is left there

A kernel that writes a part: `%k1` lies in the state's place if nothing reads `%k` from that launch
on, and the run's checks are counted before it, since a run whose checks fail leaves all states as
they were. Of several updates one after the other, all lie there.

A kernel that writes all of it: so does `%k1` under three conditions. Nothing reads `%k` after that
launch. `%k1` is no result of the graph. The launches that follow write states alone, since a run
that fails before them leaves all states as they were. `early` does without the last condition:
where memory is scarce, a run that fails may have lost states.
"""

from collections.abc import Mapping, Sequence

from xdsl.ir import BlockArgument, SSAValue

from mgn.dialects.checks import is_check
from mgn.dialects.fusion import LaunchOp
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.liveness import Pairs


def states_in_place(
    graph: GraphOp,
    launches: Sequence[LaunchOp],
    starting: Pairs,
    in_place: Pairs,
    early: bool = False,
) -> dict[SSAValue, str]:
    """The values that lie in a state's place, and the state's name."""
    order = {launch: number for number, launch in enumerate(launches)}
    entries = dict(graph.named_states)
    returned = list(graph.results_returned)
    made: dict[SSAValue, int] = {
        value: number for launch, number in order.items() for value in launch.outputs
    }
    checked = max((made.get(value, -1) for value in _checks(graph)), default=-1)
    held: dict[SSAValue, str] = {}
    for name, left in graph.named_written:
        chain = _chain(left, starting)
        if left in held or not chain or chain[-1] is not entries.get(name):
            continue
        if not early and any(made[value] <= checked for value in chain[:-1]):
            continue
        overwritten = zip(chain[1:], chain, strict=False)
        if all(_ends_at(before, after, order, returned) for before, after in overwritten):
            held.update((value, name) for value in chain[:-1])
    left = {value: name for name, value in graph.named_written}
    for launch in reversed(launches):
        if all(
            value in held
            or (
                value in left
                and returned.count(value) == 1
                and not any(
                    written == number for _, written in starting.get(launch.kernel_name, ())
                )
                and _is_read_before(entries.get(left[value]), launch, number, order, in_place)
            )
            for number, value in enumerate(launch.outputs, len(launch.inputs))
        ):
            held.update((item, left[item]) for item in launch.outputs if item not in held)
        elif not early:
            break
    return held


def _checks(graph: GraphOp) -> list[SSAValue]:
    """The results that count what the run's checks find."""
    return [value for name, value in graph.named_results if is_check(name)]


def _is_read_before(
    value: SSAValue | None,
    launch: LaunchOp,
    number: int,
    order: Mapping[LaunchOp, int],
    in_place: Pairs,
) -> bool:
    """Whether all readers of what a state held are done once a launch writes its argument of that
    number, be it in the same place.
    """
    for use in value.uses if value is not None else ():
        reader = use.operation
        if reader is launch:
            if (use.index, number) not in in_place.get(launch.kernel_name, ()):
                return False
        elif not isinstance(reader, LaunchOp) or order.get(reader, -1) > order[launch]:
            return False
    return True


def _chain(left: SSAValue, starting: Pairs) -> list[SSAValue]:
    """A value, what it starts as, and so on: back to an argument of the graph; empty where it does
    not come from one.
    """
    chain = [left]
    while not isinstance(chain[-1], BlockArgument):
        launch = chain[-1].owner
        if not isinstance(launch, LaunchOp):
            return []
        written = len(launch.inputs) + [*map(id, launch.outputs)].index(id(chain[-1]))
        reads = [read for read, result in starting.get(launch.kernel_name, ()) if result == written]
        if not reads:
            return []
        chain.append(launch.inputs[reads[0]])
    return chain


def _ends_at(
    value: SSAValue,
    after: SSAValue,
    order: Mapping[LaunchOp, int],
    returned: Sequence[SSAValue],
) -> bool:
    """Whether nobody reads a value once the launch that makes the one after it has run."""
    launch = after.owner
    assert isinstance(launch, LaunchOp)
    readers = [use.operation for use in value.uses]
    launched = [reader for reader in readers if isinstance(reader, LaunchOp)]
    early = all(order.get(reader, -1) <= order[launch] for reader in launched)
    return early and launched.count(launch) == 1 and value not in returned
