"""The corners of what operations mean: nan, infinities, empty axes, integers, clamped indices."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import Block, Operation

from mgn.dialects.mgn.build import CallError
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operations.elements.error_function import erf
from tests.support.programs import call, evaluate

INF, NAN = np.inf, np.nan


def one(name: str, *args: Any, **kwargs: Any) -> np.ndarray:
    (result,) = evaluate(name, *args, **kwargs)
    return result


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def i32(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def same(result: np.ndarray, expected: Any) -> None:
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_larger_and_the_smaller_pass_nan_on(name: str) -> None:
    same(one(name, f32(NAN, 1, NAN), f32(1, NAN, NAN)), [NAN] * 3)


def test_relu_and_clamp_pass_nan_on() -> None:
    same(one("relu", f32(NAN, -1, 2)), [NAN, 0, 2])
    same(one("clamp", f32(NAN, -1, 2), min=0, max=1), [NAN, 0, 1])


def test_clamp_without_bounds_is_the_identity() -> None:
    same(one("clamp", i32(3, -4)), [3, -4])


@pytest.mark.parametrize(
    ("name", "empty"),
    [("sum", 0), ("prod", 1), ("max_reduce", -INF), ("min_reduce", INF), ("mean", NAN)],
)
def test_a_reduction_over_an_empty_axis_gives_its_neutral_element(name: str, empty: Any) -> None:
    same(one(name, np.zeros((2, 0), np.float32), axis=1), [empty, empty])


def test_an_empty_integer_maximum_is_the_least_integer() -> None:
    same(one("max_reduce", np.zeros((0,), np.int8)), -128)
    same(one("min_reduce", np.zeros((0,), np.uint8)), 255)


def test_a_reduction_over_no_axes_keeps_every_element() -> None:
    same(one("sum", f32([1, 2], [3, 4]), axis=[]), [[1, 2], [3, 4]])


def test_the_variance_of_large_values_does_not_cancel() -> None:
    same(one("var", f32(4096, 4097, 4098)), np.float32(2 / 3))


def test_logsumexp_of_infinities() -> None:
    rows = f32([-INF, -INF], [INF, 0], [1000, 1000], [NAN, 0])
    expected = [-INF, INF, 1000 + math.log(2), NAN]
    np.testing.assert_allclose(one("logsumexp", rows, axis=-1), expected, rtol=1e-6)
    same(one("logsumexp", np.zeros((2, 0), np.float32), axis=1), [-INF, -INF])


def test_softmax_of_masked_and_huge_rows() -> None:
    rows = f32([-INF, 0, 0], [1e38, 1e38, -1e38], [-INF, -INF, -INF])
    same(one("softmax", rows), [[0, 0.5, 0.5], [0.5, 0.5, 0], [NAN] * 3])


def test_log_softmax_stays_finite_where_softmax_underflows() -> None:
    same(one("log_softmax", f32(0, -1000)), [0, -1000])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_argmax_and_argmin_take_the_first_and_count_nan_as_extreme(dtype: Any) -> None:
    rows = np.array([[1, 3, 3], [NAN, 5, NAN], [2, NAN, 9], [-INF, -INF, -INF]], dtype)
    same(one("argmax", rows, axis=1), np.argmax(rows.astype(np.float32), axis=1))
    same(one("argmin", rows, axis=1), np.argmin(rows.astype(np.float32), axis=1))
    assert one("argmax", rows, axis=1).dtype == np.int32


def test_argmax_over_all_axes_of_a_tensor_of_zero_rank_is_zero() -> None:
    same(one("argmax", np.float32(3).reshape(())), 0)


def test_integer_division_truncates_and_a_remainder_has_the_sign_of_the_divisor() -> None:
    a, b = i32(7, -7, 7, -7, 5), i32(2, 2, -2, -2, 0)
    same(one("div", a, b), [3, -3, -3, 3, 0])
    same(one("mod", a, b), [1, 1, -1, -1, 0])
    least = np.array([-(2**31)], np.int32)
    same(one("div", least, i32(-1)), least)


def test_integer_powers_are_exact_and_wrap_around() -> None:
    same(one("pow", i32(3, 2, -1, -1, 2, 1, 0), i32(4, 31, -3, -2, -1, -5, -1)), [
        81, -(2**31), -1, 1, 0, 1, 0,
    ])  # fmt: skip


def test_unsigned_integers_wrap_around() -> None:
    small = np.array([1, 2], np.uint8)
    same(one("sub", small, np.array([2, 1], np.uint8)), [255, 1])
    same(one("neg", small), [255, 254])
    same(one("sum", np.full(300, 1, np.uint8)), 300 % 256)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_a_cast_from_float_to_integer_truncates_and_saturates(dtype: Any) -> None:
    values = np.array([1.75, -1.75, INF, -INF, NAN, 300], dtype)
    same(one("cast", values, "i8"), [1, -1, 127, -128, 0, 127])
    same(one("cast", values, "u8"), [1, 0, 255, 0, 0, 255])
    same(one("cast", values, "i64")[2:4], [2**63 - 1, -(2**63)])
    same(one("cast", values, "bool"), [True] * 6)


def test_round_is_half_to_even() -> None:
    same(one("round", f32(0.5, 1.5, 2.5, -0.5, -1.5)), [0, 2, 2, -0.0, -2])


def test_round_tf32_goes_to_the_nearest_of_ten_bits_and_to_the_even_one_between_two() -> None:
    step = 2.0**-10
    same(
        one(
            "round_tf32",
            f32(1 + step / 2, -1 - step / 2, 1 + step * 0.51, 1 + 1.5 * step, 0, -0.0),
        ),
        [1, -1, 1 + step, 1 + 2 * step, 0, -0.0],
    )
    largest = float(np.finfo(np.float32).max)
    same(one("round_tf32", f32(NAN, INF, -INF, largest, -largest)), [NAN, INF, -INF, INF, -INF])


def test_half_precision_sums_are_rounded_once() -> None:
    ones = np.ones(4096, np.float16)
    same(one("sum", ones), 4096)
    same(one("cumsum", ones)[-1], 4096)
    same(one("mean", np.full(10, 60000, np.float16)), 60000)


def test_activations_of_half_precision_do_not_overflow_inside() -> None:
    x = np.array([-12, 12, 60000], np.float16)
    exact = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))
    same(one("silu", x), exact.astype(np.float16))
    same(one("softplus", x)[1:], x[1:])
    same(one("rms_norm", np.full((1, 4), 1000, np.float16)), [[1, 1, 1, 1]])


def test_activations_far_from_zero_take_their_limits() -> None:
    x = f32(-200, 200)
    same(one("sigmoid", x), [0, 1])
    same(one("softplus", x), [0, 200])
    same(one("silu", x), [-0.0, 200])
    same(one("elu", x), [-1, 200])
    same(one("gelu", x), [-0.0, 200])


def test_erf_is_within_one_unit_in_the_last_place() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), [0.0, -0.0, INF, -INF, 5e-324, 1e-300]])
    exact = np.array([math.erf(value) for value in x])
    assert np.max(np.abs(erf(x) - exact) / np.spacing(np.abs(exact))) <= 1
    assert np.isnan(erf(np.array([NAN]))).all()
    assert math.copysign(1, erf(np.array(-0.0))) == -1


def test_indices_outside_an_axis_are_clamped() -> None:
    x = f32(10, 20, 30)
    same(one("gather", x, i32(-5, 9)), [10, 30])
    same(one("take_along_axis", x, i32(-5, 9)), [10, 30])
    same(one("dynamic_slice", x, [9], [2]), [20, 30])
    same(one("dynamic_slice", x, [np.array(-7, np.int32)], [3]), x)


def test_one_hot_of_narrow_ids_reaches_past_their_range() -> None:
    same(one("one_hot", np.array([-1, 127], np.int8), 300).sum(axis=1), [0, 1])


def test_a_query_that_sees_no_key_gives_zero() -> None:
    q, k = np.ones((3, 2), np.float32), np.ones((1, 2), np.float32)
    result = one("attention", q, k, k * 5, heads=1, causal=True)
    same(result, [[0, 0], [0, 0], [5, 5]])


@pytest.mark.parametrize("window", [3, 2**31 - 1, 2**62])
def test_a_window_as_wide_as_all_keys_hides_none(window: int) -> None:
    x = np.random.default_rng(0).standard_normal((3, 2), np.float32)
    wide = one("attention", x, x, x, heads=1, causal=True, window=window)
    same(wide, one("attention", x, x, x, heads=1, causal=True))


@pytest.mark.parametrize("far", [2**31 - 1, 2**62])
def test_a_diagonal_past_the_corner_takes_all_or_nothing(far: int) -> None:
    x = f32([1, 2, 3], [4, 5, 6])
    same(one("tril", x, k=far), x)
    same(one("triu", x, k=-far), x)
    same(one("tril", x, k=-far), x * 0)
    same(one("triu", x, k=far), x * 0)


def test_attention_shares_heads_without_copies_of_keys() -> None:
    q, k = np.ones((2, 8), np.float32), np.ones((3, 4), np.float32)
    (result,) = call(Block(), "attention", q, k, k, heads=4, kv_heads=2)
    names = [step.name for step in decomposition_of(result.owner).block.ops]  # pyright: ignore
    assert "mgn.broadcast_to" not in names
    assert names.count("mgn.matmul") == 2


@pytest.mark.parametrize("how", [{}, {"causal": True}, {"bias": True}], ids=str)
def test_attention_rounds_weights_but_not_their_sum_where_it_says_so(how: dict[str, bool]) -> None:
    """Scores 0 and -0.3: the second weight, 0.740818, is between two numbers of bf16."""
    q, k, v = f32([1], [1]), f32([0], [-0.3]), f32([0], [1])
    bias = [f32([0, 0], [0, 0])] if how.pop("bias", False) else []
    weight = np.exp(-0.3)
    for rounded, numerator in ((True, 0.7421875), (False, weight)):
        found = one("attention", q, k, v, *bias, heads=1, scale=1.0, rounded_weights=rounded, **how)
        np.testing.assert_allclose(found[1], numerator / (1 + weight), rtol=1e-6)
    parts = one(
        "attention_parts", q, k, v, *bias, heads=1, scale=1.0, rounded_weights=True, each=2, **how
    )
    total, mean = parts[0, 1, 0, 1], parts[0, 1, 0, 0]
    np.testing.assert_allclose(mean / total, 0.7421875 / (1 + weight), rtol=1e-6)


def test_cross_entropy_of_impossible_and_certain_labels() -> None:
    logits = f32([0, -INF], [1000, 0])
    same(one("cross_entropy", logits, i32(1, 0), reduction="none"), [INF, 0])
    same(one("cross_entropy", logits, i32(0, 1)), 500)


def test_cross_entropy_of_an_id_outside_the_classes_takes_the_nearest() -> None:
    logits = f32([0, 3])
    same(one("cross_entropy", logits, i32(7)), one("cross_entropy", logits, i32(1)))


def test_bce_bounds_the_logarithm_at_certainty() -> None:
    same(one("bce", f32(0, 1), f32(1, 0), reduction="none"), [100, 100])


def test_bce_with_logits_does_not_overflow() -> None:
    same(one("bce_with_logits", f32(500, -500), f32(0, 1), reduction="none"), [500, 500])


def test_rope_keeps_the_first_row_and_the_length_of_every_pair() -> None:
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    y = one("rope", x, 8)
    same(y[0], x[0])
    np.testing.assert_allclose(
        y[:, :4] ** 2 + y[:, 4:] ** 2, x[:, :4] ** 2 + x[:, 4:] ** 2, rtol=1e-5
    )


def test_rope_takes_its_offset_as_a_value_or_a_number() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)
    same(one("rope", x, 4, offset=np.array(9, np.int32)), one("rope", x, 4, offset=9))


@pytest.mark.parametrize("name", ["softmax", "relu", "gelu", "tril", "layer_norm", "running_sum"])
def test_tensors_without_elements_are_legal(name: str) -> None:
    assert one(name, np.zeros((2, 0, 3), np.float32)).shape == (2, 0, 3)


def test_a_cumulative_sum_without_an_axis_is_that_of_the_flat_tensor() -> None:
    same(one("cumsum", i32([1, 2], [3, 4])), [1, 3, 6, 10])
    same(one("cumsum", i32([1, 2], [3, 4]), [1, 0]), [[1, 3], [4, 10]])
    same(one("cumsum", i32([1, 2], [3, 4]), 1, True), [[1, 3], [3, 7]])
    assert one("cumsum", np.zeros((2, 0, 3), np.float32)).shape == (0,)
    same(one("cumsum", np.full((1025, 2), 1, np.float16), [0, 1])[-1], [1025, 2050])


def test_a_product_over_an_empty_inner_axis_is_zero() -> None:
    same(one("matmul", np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)), [[0] * 3] * 2)


def test_pad_and_full_put_the_value_in_the_type_of_the_tensor() -> None:
    same(one("pad", i32(1), [[1, 0]], 7), [7, 1])
    same(one("pad", f32(1), [[0, 1]], -INF), [1, -INF])
    same(one("pad", np.array([True]), [[0, 1]]), [True, False])
    same(one("pad", np.float32(2).reshape(()), []), 2)


def test_an_integer_that_no_float_holds_stays_exact_in_an_attribute() -> None:
    big = 2**53 + 1
    wide = np.array([2**63 - 1, -(2**63), 5], np.int64)
    same(one("clamp", wide, -big, big), [big, -big, 5])
    same(one("pad", wide, [[1, 0]], big)[0], big)
    same(one("full", [1], 2**63 - 1, "i64"), [2**63 - 1])
    (result,) = call(Block(), "full", [1], big, "i64")
    assert isinstance(result.owner, Operation)
    assert f"value = {big}, T = i64" in str(result.owner)


def test_an_integer_attribute_beyond_64_bits_is_refused() -> None:
    with pytest.raises(CallError, match="an integer must fit 64 bits"):
        one("clamp", f32(1), 2**63)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_linear_layer_in_half_precision_is_rounded_once_after_the_bias(dtype: Any) -> None:
    """The product by itself is half between two numbers, and the bias tells which one is nearer."""
    unit = float(ml_dtypes.finfo(dtype).eps)
    x, w, b = np.array([[1, unit / 2]], dtype), np.ones((1, 2), dtype), np.array([unit / 4], dtype)
    same(one("linear", x, w, b), np.array([[1 + unit]], dtype))
    same(one("linear", x, w), np.array([[1]], dtype))
