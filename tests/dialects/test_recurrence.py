"""Recurrences of random shapes against plain loops, in the interpreter and on the device."""

from random import Random

import numpy as np
import pytest

import mgn
from mgn import ops
from mgn.diagnostics import DiagnosticsError
from tests.dialects.recurrent_cases import STATES, drawn, reference
from tests.support.programs import evaluate

EPS = 2.0**-23


@pytest.mark.parametrize("seed", range(60))
def test_random_recurrences_agree_with_plain_loops(seed: int) -> None:
    name, shapes, attributes = drawn(Random(seed))
    random = np.random.default_rng(seed)
    arrays = [random.uniform(-1, 1, shape) for shape in shapes]
    found = evaluate(name, *arrays, **attributes)
    wanted = reference(name, *arrays, **attributes)
    assert len(found) == len(wanted) == 1 + STATES[name]
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("target", ["opencl", "spirv"])
def test_recurrences_on_the_device_agree_with_plain_loops(target: str) -> None:
    """Each step adds roundings of a sum of as many terms as there are inputs and hidden elements;
    none grows from one step to the next by more than the recurrent weights, which are small.
    """
    calls = [drawn(Random(seed)) for seed in range(100, 112)]
    random = np.random.default_rng(3)
    inputs: dict[str, np.ndarray] = {}
    wanted: dict[str, np.ndarray] = {}
    with mgn.graph("all") as g:
        for number, (name, shapes, attributes) in enumerate(calls):
            arrays = [random.uniform(-0.4, 0.4, shape).astype(np.float32) for shape in shapes]
            values = []
            for i, array in enumerate(arrays):
                label = f"x{number}_{i}"
                sizes = ", ".join(map(str, array.shape))
                values.append(g.input(label, f"f32[{sizes}]"))
                inputs[label] = array
            found = getattr(ops, name)(*values, **attributes)
            exact = reference(name, *(array.astype(np.float64) for array in arrays), **attributes)
            for i, (value, other) in enumerate(zip(found, exact, strict=True)):
                g.output(**{f"y{number}_{i}": value})
                wanted[f"y{number}_{i}"] = other
    results = mgn.compile(g.module, target=target)(**inputs)
    for label, other in wanted.items():
        assert results[label].shape == other.shape
        bound = 64 * EPS * max(1.0, float(np.max(np.abs(other), initial=0.0)))
        np.testing.assert_allclose(results[label], other, rtol=0, atol=bound, err_msg=label)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('lstm(x, w, r, direction = "both")', "direction must be one of 'forward', 'reverse'"),
        ("lstm(w, w, r)", "x must be [steps, samples, inputs], not [8, 3]"),
        ("lstm(x, r, r)", "w must have 4 gates of H rows and 3 columns, not [8, 2]"),
        ("gru(x, w, r)", "w must have 3 gates of H rows"),
        ("lstm(x, w, w)", "r must be [8, 2], not [8, 3]"),
        ('lstm(x, w, r, direction = "bidirectional")', "w must be [2, 4·H, 3], not [8, 3]"),
        ("lstm(x, w, r, short)", "b must be [16] or [8], not [5]"),
        ("lstm(x, w, r, b, h, short)", "c0 must be [2, 2], not [5]"),
        ('rnn(x, w, wide, activation = "gelu")', "activation must be 'tanh' or 'relu'"),
    ],
)
def test_a_recurrence_that_does_not_fit_says_what_would(call: str, message: str) -> None:
    text = f"""graph g(x: f32[4, 2, 3], w: f32[8, 3], r: f32[8, 2], wide: f32[8, 8],
        b: f32[16], h: f32[2, 2], short: f32[5]) {{
      y = {call}[0]
      return y
    }}"""
    with pytest.raises(DiagnosticsError) as found:
        mgn.parse(text)
    assert message in str(found.value)
