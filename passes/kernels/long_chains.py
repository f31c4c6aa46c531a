"""How long a chain of sums may be before its parts are added up apart."""

from mgn.passes.kernels.arithmetic import ceil_div

BLOCK = 64
"""Turns of a block. Loops of up to twice as many stay as they are."""

CHAIN, MOST_STEPS = 2048, 8192
"""Steps of a chain, and of a shared axis that is one."""

MOST_KEYS = 16_384
"""Up to how many keys a work-item of a CPU adds up in one chain of blocks."""


def sets_of_totals(depth: int) -> int:
    """How many sets of totals a shared axis of so many steps asks for, besides its chain's."""
    if depth <= MOST_STEPS:
        return 0
    count, sets = ceil_div(depth, CHAIN), 1
    while count > 2 * BLOCK:
        count, sets = ceil_div(count, BLOCK), sets + 1
    return sets
