"""What products of f32 may be rounded to: the words of `precision=` and `--precision`.

In: a word. Out: nothing, or an `MgnError` with the words there are.
"""

from mgn.diagnostics import MgnError

PRECISIONS = ("f32", "tf32", "bf16", "f16")
"""`f32` never rounds an operand; with the others, sums stay in f32."""


def check_precision(precision: str) -> None:
    """MgnError for a word that is not known."""
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise MgnError(f"unknown precision '{precision}'; there are {known}")
