"""Places between pixels where rounding decides: exporters and ONNX Runtime compute them in f32."""

import numpy as np
import pytest

from tests.onnx_models.models import interpreted, model, node


def resized(size: int, scale: float, coordinates: str, nearest: str) -> list[int]:
    """Which element of a line each element of its resizing is."""
    made = node(
        "Resize",
        ["x", "", "scales"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode=coordinates,
        nearest_mode=nearest,
    )
    x = np.arange(size, dtype=np.float32)
    weights = {"scales": np.array([scale], np.float32)}
    (found,) = interpreted(model([made], {"x": x}, weights=weights), {"x": x})
    return found.astype(int).tolist()


@pytest.mark.parametrize(
    ("size", "scale", "coordinates", "nearest", "expected"),
    [
        (6, 0.6, "half_pixel", "floor", [0, 2, 3]),  # 1.5 / 0.6 - 0.5 is 2
        (5, 0.6, "asymmetric", "floor", [0, 1, 3]),
        (10, 0.6, "asymmetric", "floor", [0, 1, 3, 5, 6, 8]),  # 3 / 0.6 is 5
        (10, 0.9, "asymmetric", "floor", [0, 1, 2, 3, 4, 5, 6, 7, 8]),  # nine, not eight
    ],
)
def test_a_place_that_is_an_element_is_that_element_though_the_scale_is_rounded(
    size: int, scale: float, coordinates: str, nearest: str, expected: list[int]
) -> None:
    assert resized(size, scale, coordinates, nearest) == expected


def test_cubic_samples_beside_a_border_weigh_its_pixel_for_each_that_is_outside() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4) ** 2
    grid = np.array([[[[1.2, 0], [-1.4, 0], [0.9, 0]]]], np.float32)
    made = node(
        "GridSample",
        ["x", "grid"],
        ["y"],
        mode="cubic",
        padding_mode="border",
        align_corners=1,
    )
    (found,) = interpreted(model([made], {"x": x, "grid": grid}), {"x": x, "grid": grid})
    # PyTorch's numbers, and ONNX Runtime's: the place itself is not moved to the border.
    np.testing.assert_allclose(found.reshape(-1), [9.551252, -0.072, 8.4045925], rtol=1e-5)
