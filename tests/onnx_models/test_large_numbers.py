"""Functions of numbers whose squares or exponentials are no longer finite."""

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
