"""Types of ONNX that mgn holds in wider ones: values are those of `ml_dtypes`."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import mgn
from mgn import onnx_backend
from mgn.frontend.onnx.core.narrow import HOLDERS, POWERS_OF_TWO, is_integer
from tests.onnx_models.models import check, interpreted, model, node, onnx

FLOATS = [dtype for dtype in HOLDERS if not is_integer(dtype) and dtype.name != POWERS_OF_TWO]
RNG = np.random.default_rng(3)


def hard_numbers(dtype: np.dtype[Any]) -> np.ndarray:
    """All numbers of a type, those in the middle of two, their neighbours, and beyond them."""
    found = np.arange(256).astype(np.uint8).view(ml_dtypes.float8_e5m2)
    if dtype.itemsize == 1 and dtype.name.startswith("float8"):
        found = np.arange(256).astype(np.uint8).view(dtype)
    wide = found.astype(np.float32)
    wide = np.unique(wide[np.isfinite(wide)])
    middle = (wide[1:] + wide[:-1]) / 2
    exact = np.concatenate([wide, middle])
    ends = float(ml_dtypes.finfo(dtype).max) * np.float32([1.01, 1.05, 1.1, 2, 1e6])
    near = [np.nextafter(exact, np.float32(end)) for end in (-np.inf, np.inf)]
    some = RNG.standard_normal(500).astype(np.float32) * 10
    return np.concatenate([exact, *near, ends, -ends, some, np.float32([0.0, -0.0])])


def cast_to(dtype: np.dtype[Any], x: np.ndarray, device: str | None = None, **options: Any) -> Any:
    """What a Cast to a narrow type and back gives."""
    number = onnx.helper.np_dtype_to_tensor_dtype(dtype)
    nodes = [
        node("Cast", ["x"], ["h"], to=number, **options),
        node("Cast", ["h"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    made = model(nodes, {"x": x}, opset=25)
    if device is None:
        return interpreted(made, {"x": x})[0]
    return onnx_backend.prepare(made, device).run([x])[0]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("device", [None, "CPU"])
def test_floats_are_rounded_to_the_nearest_even(dtype: np.dtype[Any], device: str | None) -> None:
    x = hard_numbers(dtype)
    most = float(ml_dtypes.finfo(dtype).max)
    wanted = np.clip(x, -most, most).astype(dtype).astype(np.float32)
    found = cast_to(dtype, x, device)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("dtype", [item for item in FLOATS if item.name.startswith("float8")])
def test_what_is_too_large_is_no_number_where_it_is_not_held_in(dtype: np.dtype[Any]) -> None:
    x = np.concatenate([hard_numbers(dtype), np.float32([np.nan, np.inf, -np.inf])])
    wanted = x.astype(dtype).astype(np.float32)
    np.testing.assert_array_equal(cast_to(dtype, x, saturate=0), wanted)


@pytest.mark.parametrize("rounding", ["up", "down", "nearest"])
def test_powers_of_two_are_rounded_as_asked_for(rounding: str) -> None:
    x = np.exp2(RNG.uniform(-100, 100, 200)).astype(np.float32)
    x = np.concatenate([x, np.float32([1, 1.5, 3, 4, 6, np.inf, np.nan, 3e38])])
    wanted = onnx.numpy_helper.to_float8e8m0(x, True, rounding).astype(np.float32)
    dtype = np.dtype(ml_dtypes.float8_e8m0fnu)
    np.testing.assert_array_equal(cast_to(dtype, x, round_mode=rounding), wanted)


@pytest.mark.parametrize("dtype", [item for item in HOLDERS if is_integer(item)], ids=str)
def test_integers_keep_their_lowest_bits_and_quantised_ones_are_held_in(
    dtype: np.dtype[Any],
) -> None:
    whole = np.arange(-300, 300).astype(np.float32)
    found = cast_to(dtype, whole)
    limits = ml_dtypes.iinfo(dtype)
    count = int(limits.max) - int(limits.min) + 1
    np.testing.assert_array_equal(found, (whole - limits.min) % count + limits.min)
    weights = {"s": np.float32(0.5), "z": np.array(1, dtype)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    x = RNG.standard_normal(100).astype(np.float32) * 4
    made = model(nodes, {"x": x}, weights=weights, opset=25)
    held = np.clip(np.round(x / 0.5) + 1, int(limits.min), int(limits.max))
    np.testing.assert_array_equal(interpreted(made, {"x": x})[0], (held - 1) * 0.5)


def test_weights_of_four_bits_by_blocks_are_dequantised() -> None:
    x = RNG.standard_normal((3, 64)).astype(np.float32)
    weights = {
        "q": RNG.integers(-8, 8, (64, 5)).astype(ml_dtypes.int4),
        "s": RNG.uniform(0.1, 1, (4, 5)).astype(np.float32),
        "z": RNG.integers(-8, 8, (4, 5)).astype(ml_dtypes.int4),
    }
    nodes = [
        node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0, block_size=16),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    check(model(nodes, {"x": x}, weights=weights), {"x": x})


def test_inputs_of_a_program_are_in_the_type_that_holds_them() -> None:
    x = np.arange(-8, 8).astype(ml_dtypes.int4)
    made = model([node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT)], {"x": x})
    exe = mgn.compile(mgn.from_onnx(made), device="cpu")
    assert exe.inputs["x"].element == "i8"
    assert exe(x=x.astype(np.int8))["y"].tolist() == list(range(-8, 8))
    (again,) = onnx_backend.run_node(node("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT), [x])
    assert again.tolist() == list(range(-8, 8))
