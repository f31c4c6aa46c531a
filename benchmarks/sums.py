"""`python -m benchmarks.sums [--device D] [--elements N] [--only WORD]`: errors of long sums.

Each form of `long_sums.py` runs on random numbers from 0 to 1, and on one number everywhere, whose
roundings all point the same way. Errors are relative, against NumPy in f64; NumPy's own in f32
stand beside them.
"""

import argparse
import sys
from collections.abc import Sequence

import numpy as np

import mgn
from benchmarks.contests.long_sums import Form, constant, error, forms, random
from benchmarks.table import Table

DRAWS = {"random": random, "constant": constant}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sums", description=__doc__)
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--elements", type=float, default=1e7, help="how many a form may read")
    parser.add_argument("--only", default="", help="forms whose name has this word")
    options = parser.parse_args(arguments)
    chosen = [form for form in forms(int(options.elements)) if options.only in form.name]
    if not chosen:
        print(f"nothing has '{options.only}' in its name", file=sys.stderr)
        return 1
    table = Table(max(len(form.name) for form in chosen))
    for form in chosen:
        table.print(
            {"form": form.name, "terms": f"{form.terms:,}", **errors_of(form, options.device)}
        )
    return 0


def errors_of(form: Form, device: str) -> dict[str, str]:
    """A row of the table."""
    executable = mgn.compile(mgn.parse(form.program), device=device)
    found: dict[str, str] = {}
    for name, draw in DRAWS.items():
        if draw is constant and form.spreads:
            continue
        arrays = form.arrays(draw)
        (got,) = executable(**arrays).values()
        want = form.numpy(*(array.astype(np.float64) for array in arrays.values()))
        plain = form.numpy(*(array.astype(np.float32) for array in arrays.values()))
        found[f"mgn, {name}"] = f"{error(got, want):.1e}"
        found[f"NumPy, {name}"] = f"{error(plain, want):.1e}"
    return found


if __name__ == "__main__":
    sys.exit(main())
