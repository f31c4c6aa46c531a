"""The error function on arrays, in f64 to about one unit in the last place.

In: an f64 array. Out: erf of it. The rational approximations on five intervals are those of
FreeBSD's `s_erf.c` (Sun Microsystems 1993, msun/src/s_erf.c), whose error is below one unit in the
last place.
"""

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray

# Numerators and denominators by ascending powers.
_NEAR_0 = (
    (
        1.28379167095512558561e-01,
        -3.25042107247001499370e-01,
        -2.84817495755985104766e-02,
        -5.77027029648944159157e-03,
        -2.37630166566501626084e-05,
    ),
    (
        1.0,
        3.97917223959155352819e-01,
        6.50222499887672944485e-02,
        5.08130628187576562776e-03,
        1.32494738004321644526e-04,
        -3.96022827877536812320e-06,
    ),
)
_NEAR_1 = (
    (
        -2.36211856075265944077e-03,
        4.14856118683748331666e-01,
        -3.72207876035701323847e-01,
        3.18346619901161753674e-01,
        -1.10894694282396677476e-01,
        3.54783043256182359371e-02,
        -2.16637559486879084300e-03,
    ),
    (
        1.0,
        1.06420880400844228286e-01,
        5.40397917702171048937e-01,
        7.18286544141962662868e-02,
        1.26171219808761642112e-01,
        1.36370839120290507362e-02,
        1.19844998467991074170e-02,
    ),
)
_MIDDLE = (
    (
        -9.86494403484714822705e-03,
        -6.93858572707181764372e-01,
        -1.05586262253232909814e01,
        -6.23753324503260060396e01,
        -1.62396669462573470355e02,
        -1.84605092906711035994e02,
        -8.12874355063065934246e01,
        -9.81432934416914548592e00,
    ),
    (
        1.0,
        1.96512716674392571292e01,
        1.37657754143519042600e02,
        4.34565877475229228821e02,
        6.45387271733267880336e02,
        4.29008140027567833386e02,
        1.08635005541779435134e02,
        6.57024977031928170135e00,
        -6.04244152148580987438e-02,
    ),
)
_FAR = (
    (
        -9.86494292470009928597e-03,
        -7.99283237680523006574e-01,
        -1.77579549177547519889e01,
        -1.60636384855821916062e02,
        -6.37566443368389627722e02,
        -1.02509513161107724954e03,
        -4.83519191608651397019e02,
    ),
    (
        1.0,
        3.03380607434824582924e01,
        3.25792512996573918826e02,
        1.53672958608443695994e03,
        3.19985821950859553908e03,
        2.55305040643316442583e03,
        4.74528541206955367215e02,
        -2.24409524465858183362e01,
    ),
)
_ERF_1 = 8.45062911510467529297e-01
_END_NEAR_0, _END_NEAR_1, _END_MIDDLE, _END_FAR = 0.84375, 1.25, 1 / 0.35, 6.0

Rational = tuple[Sequence[float], Sequence[float]]


def _rational(coefficients: Rational, x: Array) -> Array:
    above, below = (np.polynomial.polynomial.polyval(x, part) for part in coefficients)
    return above / below


def _tail(coefficients: Rational, x: Array) -> Array:
    """1 - erfc(x), with erfc(x) = exp(-x² - 0.5625 + R(1/x²)) / x and x² split to keep its error
    out.
    """
    rounded = (x.view(np.int64) & ~0xFFFFFFFF).view(np.float64)
    exponent = (rounded - x) * (rounded + x) + _rational(coefficients, 1 / (x * x))
    return 1 - np.exp(-rounded * rounded - 0.5625) * np.exp(exponent) / x


def erf(x: Array) -> Array:
    """The error function 2/√π ∫₀ˣ exp(-t²) dt of an f64 array; nan passes on."""
    flat = np.abs(np.ascontiguousarray(x, np.float64)).reshape(-1)
    result = np.where(np.isnan(flat), np.nan, 1.0)
    intervals: tuple[tuple[Array, Callable[[Array], Array]], ...] = (
        (flat < _END_NEAR_0, lambda v: v + v * _rational(_NEAR_0, v * v)),
        (
            (flat >= _END_NEAR_0) & (flat < _END_NEAR_1),
            lambda v: _ERF_1 + _rational(_NEAR_1, v - 1),
        ),
        ((flat >= _END_NEAR_1) & (flat < _END_MIDDLE), lambda v: _tail(_MIDDLE, v)),
        ((flat >= _END_MIDDLE) & (flat < _END_FAR), lambda v: _tail(_FAR, v)),
    )
    for inside, formula in intervals:
        result[inside] = formula(flat[inside])
    return np.copysign(result, np.reshape(x, -1)).reshape(np.shape(x))
