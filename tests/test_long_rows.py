"""Many long rows of which only totals are written: what few work-items a row compute.

The reference is the wide interpreter; both forms of the template run.
"""

from typing import Any

import numpy as np
import pytest
from lower_fixture import FORMS, Run, check_all, forms_of, fused_kernel
from opencl_fixture import cl_queue  # noqa: F401
from test_differential import EPSILON, assert_near, draw, sum_error


@pytest.mark.parametrize("length", [4096, 4099, 4100, 9000])
def test_the_logarithm_of_a_sum_of_exponents_of_many_long_rows(length: int, cl_queue: Any) -> None:  # noqa: F811
    def build(b: Any, x: Any) -> Any:
        largest = b.max_reduce(x, axis=-1, keepdims=True)
        return b.add(b.log(b.sum(b.exp(b.sub(x, largest)), axis=-1, keepdims=True)), largest)

    rows = 16 * max(device.compute_units for form, device in FORMS.items() if form != "cpu")
    array = draw("f32", (rows, length), 5)
    kernel = fused_kernel("reduction", [("f32", (rows, length))], build)

    # The sum errs by `sum_error` of itself, exp by 4 ulp and by its rounded argument; the
    # logarithm takes these as they are, and log and the last addition add 4 ulp of the result.
    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        units = 8 + 4 * np.abs(want[0]) + np.log(length)
        assert_near(got[0], want[0], sum_error(length) + EPSILON["f32"] * units, run.what)

    check_all(cl_queue, forms_of(kernel, [array], str(length)), check)
