"""What products of f32 may be rounded to, and what lies between them: the words of `precision=` and
`--precision`.

In: a word. Out: the options that it gives to passes, or an `MgnError` with the words there are.
"""

from typing import Any

from mgn.diagnostics import MgnError

OPERANDS = ("f32", "tf32", "bf16", "f16")
"""Words for what operands are rounded to. `f32` never rounds one; with the others, sums stay in
f32.
"""

STORED = {"bf16-stored": "bf16"}
"""Words for a rounding of operands with which kernels hand their results to one another in that
type. There is none for f16: sums of a residual stream leave its range.
"""

PRECISIONS = (*OPERANDS, *STORED)


def check_precision(precision: str, trains: bool = False) -> None:
    """MgnError for a word that is not known, or that is not for training."""
    if trains and precision in STORED:
        raise MgnError(
            f"precision '{precision}' is for inference; in training '{STORED[precision]}' already "
            "keeps in two bytes what products read and give"
        )
    if precision not in PRECISIONS:
        known = ", ".join(OPERANDS if trains else PRECISIONS)
        raise MgnError(f"unknown precision '{precision}'; there are {known}")


def precision_options(precision: str) -> dict[str, dict[str, Any]]:
    """The options of the passes that round, by their names."""
    found: dict[str, dict[str, Any]] = {
        "convert-precision": {"precision": STORED.get(precision, precision)}
    }
    if precision in STORED:
        found["store-activations"] = {"precision": STORED[precision]}
    return found
