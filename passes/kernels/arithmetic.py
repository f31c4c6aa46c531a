"""Whole numbers: how many blocks hold a count, powers of two, vectors that divide an axis."""


def ceil_div(count: int, size: int) -> int:
    """How many blocks of a size hold a count."""
    return -(-count // size)


def dividing_lanes(count: int, most: int) -> int:
    """The longest vector, up to a limit, that divides a count."""
    lanes = most
    while lanes > 1 and count % lanes:
        lanes //= 2
    return max(lanes, 1)


def power_below(count: int) -> int:
    """The largest power of two that is no larger, at least 1."""
    return 1 << (max(count, 1).bit_length() - 1)


def power_above(count: int) -> int:
    """The smallest power of two that is no smaller."""
    return 1 << max(count - 1, 0).bit_length()
