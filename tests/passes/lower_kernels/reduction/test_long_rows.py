"""Long rows: few work-items for those of which only totals are written, and rows that wait in local
memory.

The reference is the wide interpreter; both forms of the template run.
"""

from typing import Any

import numpy as np
import pytest

from mgn.dialects.kernel import CopyChunkOp
from tests.passes.lower_kernels.test_differential import (
    EPSILON,
    assert_near,
    draw,
    layer_norm,
    softmax,
    sum_error,
)
from tests.support.lower_fixture import FORMS, Run, check_all, forms_of, fused_kernel, lowered
from tests.support.opencl_fixture import cl_queue  # noqa: F401


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


def two_inputs(b: Any, x: Any, y: Any) -> Any:
    """Of each input what the walks need differs; one is read backwards besides."""
    z = b.add(b.mul(x, 0.5), b.flip(x, axis=[1]))
    largest = b.max_reduce(z, axis=-1, keepdims=True)
    total = b.sum(b.exp(b.sub(z, largest)), axis=-1, keepdims=True)
    return b.add(b.div(b.exp(b.sub(z, largest)), total), y)


@pytest.mark.parametrize("length", [20_000, 20_004, 9_001, 40_960])
def test_rows_that_wait_in_local_memory(length: int, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for build, inputs in ((softmax, 1), (layer_norm, 3), (two_inputs, 2)):
        shapes = [(3, length), *[(length,) if build is layer_norm else (3, length)] * (inputs - 1)]
        kernel = fused_kernel("reduction", [("f32", shape) for shape in shapes], build)
        arrays = [draw("f32", shape, number) for number, shape in enumerate(shapes)]
        for form in FORMS.keys() - {"cpu"}:
            for room in (1 << 13, 40 * 1024):
                how = {"local": 256, "stash_memory": room}
                function = lowered(kernel, FORMS[form], **how)
                assert any(isinstance(op, CopyChunkOp) for op in function.walk())
                what = f"{build.__name__} {length} {room} {form}"
                runs.append(Run(kernel, arrays, FORMS[form], how, what))

    def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
        bound = 4 * sum_error(length) + EPSILON["f32"] * 40 * (1 + np.abs(want[0]))
        assert_near(got[0], want[0], bound, run.what)

    check_all(cl_queue, runs, check)
