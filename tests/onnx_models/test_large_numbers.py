"""Functions of numbers whose squares, magnitudes or exponentials are beyond their type."""

import numpy as np
import pytest

from tests.onnx_models.models import interpreted, model, node

FUNCTIONS = {"Sinh": np.sinh, "Cosh": np.cosh, "Asinh": np.arcsinh, "Acosh": np.arccosh}
NUMBERS = (0, 1e-7, 0.5, 1, 1.5, 19.9, 20.1, 88, 89, 90, 800, 1e5, 1e10, 1e19, 1e25, 3e38, np.inf)
LARGE = (700, 710, 711, 1e150, 1e155, 1.7e308)


@pytest.mark.parametrize("operator", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hyperbolic_functions_are_finite_where_their_values_are(operator: str, dtype: type) -> None:
    numbers = np.array([*NUMBERS, *(LARGE if dtype is np.float64 else ())])
    x = np.concatenate([numbers, -numbers, [np.nan]]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = FUNCTIONS[operator](x.astype(np.float64)).astype(dtype)
        (found,) = interpreted(model([node(operator, ["x"], ["y"])], {"x": x}), {"x": x})
    np.testing.assert_allclose(found, expected, rtol=2e-6 if dtype is np.float32 else 1e-13)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8])
def test_the_remainder_of_the_least_and_the_largest_integer(dtype: type) -> None:
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = np.array([least, least + 3, 0, 1, 2, 7, most] + [-1, -7] * (least < 0), dtype)
    a, b = (item.reshape(-1).copy() for item in np.meshgrid(numbers, numbers[numbers != 0]))
    made = model([node("Mod", ["a", "b"], ["y"], fmod=1)], {"a": a, "b": b})
    (found,) = interpreted(made, {"a": a, "b": b})
    rests = [abs(one) % abs(two) for one, two in zip(a.tolist(), b.tolist(), strict=True)]
    wanted = [-rest if one < 0 else rest for one, rest in zip(a.tolist(), rests, strict=True)]
    assert found.dtype == dtype and found.tolist() == wanted
