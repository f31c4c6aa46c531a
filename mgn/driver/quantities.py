"""Numbers as messages and tables have them: counts, times, sizes.

In: a number. Out: a short text.
"""


def counted(number: int, noun: str) -> str:
    """`1 kernel`, `2 kernels`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def seconds_text(seconds: float) -> str:
    """A time with three digits and a fitting unit."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def bytes_text(size: float) -> str:
    """A size with a fitting unit."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GiB"
