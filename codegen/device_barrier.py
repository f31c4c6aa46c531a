"""The text of a barrier of a whole device, in NVIDIA's OpenCL C.

In: how often a work-group looks whether the others have arrived, and what it does when it gives up.
Out: the lines of three functions, `arrive(arrivals)`, `await_all(arrivals, all)` and
`poll(arrivals, all)`. The last is what one work-item does of `await_all`.

One work-item of each group counts it as arrived, after a fence, and later waits until `all` have:
what a group has written before is then there for all of them. What needs nobody else's results can
stand between the two. A launch of more groups than run at once would wait for ever; so each look
is counted.
"""

ARRIVE, AWAIT, POLL = "arrive", "await_all", "poll"

ARRIVE_PARAMETERS = "__global uint* arrivals"
AWAIT_PARAMETERS = "__global uint* arrivals, uint all"

MOST_POLLS = 1 << 24
"""Looks of a group, some ten seconds."""

LEAST_CAPABILITY = 7
"""The compute capability from which on PTX has fences and loads of the device's scope."""

FAILURE = 'asm volatile("trap;");'
"""What a group that gives up does by default. The launch ends with an error."""

ALL_ITEMS = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"


def arrive_lines() -> list[str]:
    """The body of `arrive`."""
    return [
        ALL_ITEMS,
        "if (get_local_id(0) == 0)",
        '    asm volatile("fence.acq_rel.gpu;\\n"',
        '        "red.relaxed.gpu.global.add.u32 [%0], 1;" :: "l"(arrivals) : "memory");',
    ]


def await_lines(polls: int = MOST_POLLS, failure: str = FAILURE) -> list[str]:
    """The body of `await_all`. By default a launch that waits too long ends, and the driver reports
    an error.
    """
    polling = [f"    {line}" for line in poll_lines(polls, failure)]
    return ["if (get_local_id(0) == 0) {", *polling, "}", ALL_ITEMS]


def poll_lines(polls: int = MOST_POLLS, failure: str = FAILURE) -> list[str]:
    """The body of `poll`. What others wrote is then there for the work-item, and for those that
    meet it later.
    """
    return [
        "uint arrived, polls = 0;",
        "do {",
        '    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"',
        '        : "=r"(arrived) : "l"(arrivals) : "memory");',
        f"    if (++polls == {polls}u) {{ {failure} }}",
        "} while (arrived < all);",
    ]
