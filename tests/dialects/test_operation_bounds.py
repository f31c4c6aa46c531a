"""The rows of `tests/fuzz/bounds.py`: intervals hold what the interpreter gives inside of them, and
no more than that where the operands are known.
"""

from itertools import product

import numpy as np
import pytest

from mgn.dialects.mgn.operation import FLOATS, OPERATIONS, Kind
from tests.fuzz.bounds import (
    BINARY,
    COMPARISONS,
    EXACT_BINARY,
    EXACT_UNARY,
    ROOTS_AND_QUOTIENTS,
    UNARY,
)
from tests.fuzz.intervals import Array, Floats
from tests.support.programs import evaluate
from tests.support.ulps import FUNCTION_ULPS

FUNCTIONS = {**UNARY, **EXACT_UNARY, **BINARY, **EXACT_BINARY}
APART = {*COMPARISONS, "where", "cast", "isnan", "round_tf32"}
"""Operations that `bounds.py` computes otherwise than by a row."""

ERROR = 4 * np.finfo(np.float64).eps
COUNT = 4000
ENDS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 1e-300, 1e300, -1e300, np.inf, -np.inf)


def test_every_core_elementwise_operation_of_floats_has_bounds() -> None:
    taken = {
        name
        for name, spec in OPERATIONS.items()
        if spec.kind is Kind.ELEMENTWISE and spec.is_core and spec.operands[0].accepts & FLOATS
    }
    missing = sorted(taken - APART - set(FUNCTIONS))
    assert missing == [], "their rows are missing in tests/fuzz/bounds.py"


def test_every_function_that_is_rounded_says_by_how_much_it_may_be_off() -> None:
    missing = sorted(set(UNARY) - set(FUNCTION_ULPS) - set(ROOTS_AND_QUOTIENTS))
    assert missing == [], "their rows are missing in tests/support/ulps.py"


def _intervals(random: np.random.Generator) -> tuple[Floats, Array]:
    """Intervals of all sizes, some of a point or to a special end, and a number inside of each."""
    size = 10.0 ** random.uniform(-8, 3, COUNT)
    middle = random.standard_normal(COUNT) * 10.0 ** random.uniform(-3, 2, COUNT)
    ends = np.stack([middle - size, middle + size])
    special = random.random((2, COUNT)) < 0.2
    ends[special] = random.choice(ENDS, int(special.sum()))
    ends[:, ::3] = ends[0, ::3]
    lo, hi = np.sort(ends, axis=0)
    part = random.uniform(0, 1, COUNT)
    near = np.clip(lo, -1e3, 1e3), np.clip(hi, -1e3, 1e3)
    inside = np.clip((1 - part) * near[0] + part * near[1], lo, hi)
    none = np.zeros(COUNT, bool)
    return Floats(lo, hi, none, none), inside


def _drawn(name: str) -> tuple[list[Floats], list[Array], Floats]:
    """Operands of an operation, numbers inside of them, and what its row makes of the operands."""
    random = np.random.default_rng(sum(map(ord, name)))
    operands = [_intervals(random) for _ in OPERATIONS[name].operands]
    sets = [one for one, _ in operands]
    with np.errstate(all="ignore"):
        return sets, [inside for _, inside in operands], FUNCTIONS[name](*sets)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_hold_what_the_interpreter_gives_inside_of_them(name: str) -> None:
    sets, inside, bounds = _drawn(name)
    ends = [(one.lo, one.hi, number) for one, number in zip(sets, inside, strict=True)]
    for numbers in product(*ends):
        with np.errstate(all="ignore"):
            (value,) = evaluate(name, *numbers)
            step = ERROR * np.maximum(np.abs(value), np.finfo(np.float64).smallest_normal)
            step = np.where(np.isfinite(step), step, 0.0)
            held = (bounds.lo - step <= value) & (value <= bounds.hi + step)
        wrong = ~np.where(np.isnan(value), bounds.nan, held)
        first = int(np.argmax(wrong))
        operands = [(one.lo[first], one.hi[first]) for one in sets]
        assert not wrong.any(), (
            f"{name} of {[each[first] for each in numbers]} is {value[first]}, outside of "
            f"[{bounds.lo[first]}, {bounds.hi[first]}], which {operands} have in bounds.py"
        )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bounds_of_known_numbers_are_as_near_as_the_number(name: str) -> None:
    sets, inside, bounds = _drawn(name)
    with np.errstate(all="ignore"):
        (value,) = evaluate(name, *inside)
        known = np.logical_and.reduce([one.lo == one.hi for one in sets]) & np.isfinite(value)
        known &= np.logical_and.reduce([np.isfinite(x) & (x != 0) for x in inside])
        wide = known & (bounds.hi - bounds.lo > ERROR * np.abs(value))
    assert known.sum() > COUNT / 50
    assert not wide.any(), f"{name} of {[number[wide][0] for number in inside]} is not claimed"
