"""Whether results are among those that a program may give.

In: results by name, and the sets of `Bounds`; or two results that must have the same bits. Out:
what is wrong, in one line, or None.
"""

from collections.abc import Mapping

import numpy as np

from tests.fuzz.intervals import Array, Discrete, Values


def outside(got: Mapping[str, Array], sets: Mapping[str, Values], finite: bool) -> str | None:
    """The first result that lies outside its set. With `finite`, nothing is asked of elements that
    the written program makes from infinities or NaN of its arithmetic.
    """
    for name, values in sets.items():
        array = got[name]
        if array.shape != values.shape:
            return f"{name} has shape {list(array.shape)}, not {list(values.shape)}"
        wrong = _wrong(array, values)
        if finite:
            wrong = wrong & ~values.wild
        if wrong.any():
            place = tuple(int(n) for n in np.argwhere(wrong)[0])
            return (
                f"{name}{list(place)} is {array[place]}, not {_described(values, place)}; "
                f"{int(wrong.sum())} of {array.size} elements are wrong"
            )
    return None


def _wrong(array: Array, values: Values) -> Array:
    if isinstance(values, Discrete):
        return np.asarray((array != values.value) & ~values.unsure)
    wide = array.astype(np.float64)
    nan = np.isnan(wide)
    with np.errstate(invalid="ignore"):
        inside = (wide >= values.lo) & (wide <= values.hi)
    return np.asarray(~np.where(nan, values.nan, inside))


def _described(values: Values, place: tuple[int, ...]) -> str:
    if isinstance(values, Discrete):
        return str(values.value[place])
    low, high, nan = float(values.lo[place]), float(values.hi[place]), bool(values.nan[place])
    if low > high:
        return "nan"
    return f"from {low!r} to {high!r}" + (" or nan" if nan else "")


def other_bits(got: Mapping[str, Array], wanted: Mapping[str, Array]) -> str | None:
    """The first result whose bits differ; all NaN are one."""
    for name, want in wanted.items():
        array = got[name]
        if array.shape != want.shape or array.dtype != want.dtype:
            return f"{name} is {array.dtype} {array.shape}, not {want.dtype} {want.shape}"
        one, other = (np.ascontiguousarray(item).reshape(-1) for item in (array, want))
        bits = f"u{array.dtype.itemsize}"
        wrong = one.view(bits) != other.view(bits)
        if array.dtype.kind not in "iub":
            nan = [np.isnan(item.astype(np.float64)) for item in (one, other)]
            wrong &= ~(nan[0] & nan[1])
        if wrong.any():
            place = int(np.argmax(wrong))
            return (
                f"{name}.flat[{place}] is {one[place]}, and not {other[place]} to the bit; "
                f"{int(wrong.sum())} of {array.size} elements differ"
            )
    return None
