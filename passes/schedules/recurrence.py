"""The schedule of a recurrence: a work-group walks all steps of a few samples.

The work-items of a group divide the hidden elements; each has all gates of its own. The state is in
local memory, and a barrier lies between two steps. On a CPU a group is one work-item, whose vectors
lie along the hidden elements.
"""

from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion.forms import RECURRENCE
from mgn.dialects.mgn.operations.recurrences.recurrence import CELLS, DIRECTIONS, Cell
from mgn.passes.kernels.arithmetic import ceil_div, dividing_lanes, power_above
from mgn.passes.kernels.body import Body, Node
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules

LOOP = "loop"
"""The one variant of the recurrence template."""

ACCUMULATORS = 16
"""Sums that a work-item holds at most: one for each gate of each of its samples."""

MOST_HIDDEN = 2048
"""Terms of a sum that is added up in one go."""

LOCAL_ARRAYS = 3
"""Arrays of a group's states in local memory: h before and after a step, and c."""

CELL_STEPS = {True: 40.0, False: 24.0}
"""Simple operations that a gate takes of an element on a CPU and on a GPU: a sigmoid and more."""

CPU_STEP, GPU_STEP = 2e-7, 1.5e-6
"""Seconds of a step beside its sums: loops; on a GPU two trips to memory and a barrier."""

CPU_SHARE = 0.35
"""The share of a core's best rate that one step's sums reach."""

USUAL_CACHE = 1 << 15
"""A core's first cache, where the device does not tell; larger weights are read again each step."""

GPU_SHARE = 2.4
"""How fast a group reads the weights again at each step, from a cache: in shares of the bandwidth
that a compute unit has.
"""


def recurrence_of(body: Body) -> Node:
    """The recurrence of a body."""
    (node,) = [node for node in body.nodes if node.name == RECURRENCE]
    return node


def cell_of(node: Node) -> Cell:
    """What a recurrence does at each step."""
    return CELLS[node.values["cell"]]


def recurrence_schedules(request: Request) -> Schedules:
    """The schedules of a recurrence; there is one. VerifyException where no template writes it."""
    node = recurrence_of(request.body)
    kind, many = cell_of(node), len(DIRECTIONS[node.values["direction"]])
    steps, samples, size = node.operands[0].shape[0], node.shape[2], node.shape[3]
    if kind.resets_first or size > MOST_HIDDEN:
        raise VerifyException("fusion.kernel: no template writes such a recurrence")
    units, gpu = request.number("units", 1), request.is_gpu
    width = 1 if gpu else dividing_lanes(size, request.number("lanes", 16))
    chunks = size // width
    items = min(request.number("local", 256), power_above(chunks)) if gpu else 1
    rows = ACCUMULATORS // kind.gates
    room = request.device.local_memory // (LOCAL_ARRAYS * size * node.element.bytes)
    rows = max(1, min(rows, room, ceil_div(samples * many, units)))
    groups = many * ceil_div(samples, rows)
    waves = ceil_div(groups, units)
    sums = 2.0 * kind.gates * size * (size + CELL_STEPS[not gpu] / 2)
    rate = request.device.rate(node.element.name) / units
    weights = kind.gates * size * size * node.element.bytes
    if gpu:
        reading = weights * units / (GPU_SHARE * request.device.bandwidth)
        step = GPU_STEP + max(rows * sums / rate, reading)
    else:
        full = width / max(request.number("lanes", 16), 1)
        far = weights > (request.device.l1_cache or USUAL_CACHE)
        reading = weights * units / request.device.bandwidth if far else 0.0
        step = CPU_STEP + max(rows * sums / (rate * CPU_SHARE * full), reading)
    again = float(steps * ceil_div(samples, rows))
    passes = (1.0, again, *[1.0] * (len(node.operands) - 2))
    if len(node.operands) > 1 + kind.states + 1:
        passes = (*passes[:-1], again)
    numbers = {"width": width, "items": items, "rows": rows}
    return [Schedule(LOOP, numbers, request.facts("form"), steps * waves * step, passes)]
