"""How near to PyTorch a result has to be: as near to the exact one as PyTorch is, give or take.

In: a result in f32, PyTorch's in f32, and PyTorch's in f64. Out: an AssertionError where the first
is further from the last than `FACTOR` times the second is, and further than a few roundings.
"""

import numpy as np

FACTOR = 4.0
ROUNDINGS = 32 * 2.0**-24
"""Beside the largest element: sums in another order, functions of other last bits."""


def check_near(found: np.ndarray, eager: np.ndarray, exact: np.ndarray, what: str = "") -> None:
    """AssertionError where a result is not near enough."""
    assert found.shape == eager.shape == exact.shape, what
    if found.dtype.kind != "f":
        np.testing.assert_array_equal(found, eager, err_msg=what)
        return
    size = float(np.abs(exact).max(initial=0))
    own = float(np.abs(found - exact).max(initial=0))
    other = float(np.abs(eager - exact).max(initial=0))
    bound = max(FACTOR * other, ROUNDINGS * size)
    assert own <= bound, f"{what}: {own:.3g} from the exact result, PyTorch {other:.3g}"
