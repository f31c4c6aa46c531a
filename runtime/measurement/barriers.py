"""What a barrier of a whole device takes, where a launch of resident work-groups can have one.

In: a device. Out: seconds; 0 where work-groups cannot wait for one another, or must not:
`MGN_RESIDENT=off` says so. The first use of a device tries it: a launch with one group on each
compute unit meets many times, and after each time looks for what its neighbours wrote before. It
waits for a while only, so that a device that does not run all groups at once is found out and not
hung. What was found is kept on disk for the device and its driver.
"""

import hashlib
import json
import math
from typing import Any

import numpy as np

from mgn.codegen.device_barrier import (
    ARRIVE,
    ARRIVE_PARAMETERS,
    AWAIT,
    AWAIT_PARAMETERS,
    LEAST_CAPABILITY,
    arrive_lines,
    await_lines,
)
from mgn.runtime.devices import ComputeDevice, opencl
from mgn.runtime.location import cache_folder, keep_file, kept_file
from mgn.runtime.switches import switched_on

RESIDENT_VARIABLE = "MGN_RESIDENT"

_VERSION = 2
_MOST_BYTES = 1 << 10
_ITEMS = 1024
_ROUNDS = 200
_POLLS = 1 << 18
"""Some two tenths of a second."""

_LAUNCHES = 5

_GIVE_UP = "arrivals[1] = 1; break;"

_KERNEL = """
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void meet(__global uint* arrivals, __global uint* written, int rounds)
{
    uint own = get_group_id(0), groups = get_num_groups(0), wrong = 0;
    for (uint round = 1; round <= rounds; ++round) {
        if (get_local_id(0) == ITEMS - 1) written[own] = round;
        arrive(arrivals);
        await_all(arrivals, (2 * round - 1) * groups);
        wrong |= written[(own + get_local_id(0)) % groups] != round;
        arrive(arrivals);
        await_all(arrivals, 2 * round * groups);
        if (arrivals[1]) return;
    }
    if (wrong) arrivals[2] = 1;
}
"""


def barrier_seconds(device: ComputeDevice, again: bool = False) -> float:
    """The time of a barrier on a device, from disk or measured; 0 where there is none."""
    if not merging_is_on() or not _may_have_one(device.handle):
        return 0.0
    root = cache_folder()
    name = hashlib.sha256(f"{_VERSION} {device.measured_identity}".encode()).hexdigest()[:32]
    path = None if root is None else root / "devices" / f"{name}-barrier.json"
    known = None if again or path is None else _seconds_of(kept_file(path, _MOST_BYTES))
    if known is not None:
        return known
    found = measured(device.handle)
    if path is not None:
        keep_file(path, json.dumps({"seconds": found}).encode())
    return found


def merging_is_on() -> bool:
    """Whether launches may be merged in this process."""
    return switched_on(RESIDENT_VARIABLE, True)


def _may_have_one(handle: Any) -> bool:
    if "cl_nv_device_attribute_query" not in handle.extensions.split():
        return False
    return int(handle.compute_capability_major_nv) >= LEAST_CAPABILITY


def _seconds_of(content: bytes | None) -> float | None:
    """What a file says; None where it is none that mgn wrote."""
    try:
        seconds = None if content is None else json.loads(content)["seconds"]
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    is_time = isinstance(seconds, float) and math.isfinite(seconds) and 0.0 <= seconds < 1.0
    return seconds if is_time else None


def probe_source() -> str:
    """The program that tries barriers."""
    functions = (
        (ARRIVE, ARRIVE_PARAMETERS, arrive_lines()),
        (AWAIT, AWAIT_PARAMETERS, await_lines(_POLLS, _GIVE_UP)),
    )
    texts = [
        "\n    ".join([f"void {name}({inputs}) {{", *lines]) for name, inputs, lines in functions
    ]
    return "\n}\n".join([*texts, _KERNEL.replace("ITEMS", str(_ITEMS))])


def measured(handle: Any) -> float:
    """The time of a barrier; 0 where groups have waited in vain, or not seen what others wrote."""
    cl = opencl()
    groups = handle.max_compute_units
    try:
        context = cl.Context([handle])
        flags = cl.command_queue_properties.PROFILING_ENABLE
        queue = cl.CommandQueue(context, properties=flags)
        program = cl.Program(context, probe_source()).build(cache_dir=False)
        kernel = cl.Kernel(program, "meet")
        written = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4 * groups)
        arrivals = cl.Buffer(context, cl.mem_flags.READ_WRITE, 128)
        kernel.set_args(arrivals, written, np.int32(_ROUNDS))
        times: list[float] = []
        state = np.zeros(32, np.uint32)
        for _ in range(_LAUNCHES):
            cl.enqueue_copy(queue, arrivals, np.zeros(32, np.uint32))
            event = cl.enqueue_nd_range_kernel(queue, kernel, (groups * _ITEMS,), (_ITEMS,))
            cl.enqueue_copy(queue, state, arrivals)
            if state[1] or state[2]:
                return 0.0
            times.append((event.profile.end - event.profile.start) * 1e-9)
    except cl.Error:
        return 0.0
    return min(times) / (2 * _ROUNDS)
