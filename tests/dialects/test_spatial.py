"""Convolutions, pooling and resizing in the interpreter, against plain loops in f64."""

import numpy as np
import pytest

from tests.dialects.spatial_cases import SPATIAL, drawn
from tests.support.programs import evaluate

CASES = 40


@pytest.mark.parametrize("name", SPATIAL)
def test_random_calls_have_the_value_that_plain_loops_find(name: str) -> None:
    reference = SPATIAL[name][1]
    for number in range(CASES):
        call = drawn(name, number)
        random = np.random.default_rng(number)
        arrays = [np.asarray(random.uniform(-2.0, 2.0, shape)) for shape in call.shapes]
        want = reference(*arrays, **call.attributes)
        (got,) = evaluate(name, *arrays, **call.attributes)
        what = f"{name} {call}"
        assert got.shape == want.shape, what
        bound = 2.0**-50 * call.terms * 4.0
        np.testing.assert_allclose(got, want, rtol=0.0, atol=bound, err_msg=what)
