"""Which of a graph's values lie where a state does, because kernels write a part of it there.

In: a graph of launches, and which results of a kernel start as an argument. Out: the state of each
value that is written in place.

    %k1 = fusion.launch @update_0(%k, %row, %at)      %k is found in a state, %k1 is left there

`%k1` lies in the state's place if nothing reads `%k` from that launch on: then the part alone is
written. Of several updates one after the other, all lie there.
"""

from collections.abc import Mapping, Sequence

from xdsl.ir import BlockArgument, SSAValue

from mgn.dialects.fusion import LaunchOp
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.liveness import Pairs


def delay_updates(graph: GraphOp, starting: Pairs) -> None:
    """Moves each launch that writes a part of a value behind the last one that reads the value as
    it was, unless its result is read before that; and behind all launches where its result is left
    in a state and no launch reads it, for what a run does last it does only if all else succeeded.
    """
    left = {value for _, value in graph.named_written}
    launches = [op for op in graph.block.ops if isinstance(op, LaunchOp)]
    order = {launch: number for number, launch in enumerate(launches)}
    for launch in launches:
        for read, _ in starting.get(launch.kernel_name, ()):
            readers = [order.get(use.operation, -1) for use in launch.inputs[read].uses]
            users = [order.get(use.operation) for value in launch.outputs for use in value.uses]
            last = max(readers)
            if users and left.issuperset(launch.outputs) and all(user is None for user in users):
                last = len(launches) - 1
            if last > order[launch] and all(user is None or user > last for user in users):
                launch.detach()
                if last == len(launches) - 1:
                    graph.block.insert_op_before(launch, graph.return_op)
                else:
                    graph.block.insert_op_after(launch, launches[last])
                order[launch] = last


def states_in_place(
    graph: GraphOp, launches: Sequence[LaunchOp], starting: Pairs
) -> dict[SSAValue, str]:
    """The values that lie in a state's place, and the state's name."""
    order = {launch: number for number, launch in enumerate(launches)}
    entries = dict(graph.named_states)
    returned = list(graph.results_returned)
    held: dict[SSAValue, str] = {}
    for name, left in graph.named_written:
        chain = _chain(left, starting)
        if left in held or not chain or chain[-1] is not entries.get(name):
            continue
        overwritten = zip(chain[1:], chain, strict=False)
        if all(_ends_at(before, after, order, returned) for before, after in overwritten):
            held.update((value, name) for value in chain[:-1])
    return held


def _chain(left: SSAValue, starting: Pairs) -> list[SSAValue]:
    """A value, what it starts as, and so on: back to an argument of the graph; empty where it does
    not come from one.
    """
    chain = [left]
    while not isinstance(chain[-1], BlockArgument):
        launch = chain[-1].owner
        if not isinstance(launch, LaunchOp):
            return []
        written = len(launch.inputs) + list(launch.outputs).index(chain[-1])
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
