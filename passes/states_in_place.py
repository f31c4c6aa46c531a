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
