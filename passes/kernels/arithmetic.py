"""Whole numbers: how many blocks hold a count, powers of two, and vectors of what is counted."""

from collections.abc import Iterator


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


def shorter_vectors(count: int, width: int) -> Iterator[tuple[int, int]]:
    """Where vectors begin that are shorter and shorter, behind the last whole one of a width, which
    is a power of two, and how long they are.
    """
    start = count // width * width
    while start < count:
        width //= 2
        if start + width <= count:
            yield start, width
            start += width
