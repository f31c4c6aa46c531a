"""Attention kernels against the interpreter and against a bound that follows from the arithmetic.

Both forms run on the CPU device, in every combination of what attention can be asked for.
"""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES, BarrierOp, SubGroupShuffleOp
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.schedules.attention.tiles import SHAPES
from tests.passes.lower_kernels.attention.attention_reference import (
    Bounded,
    attention_arrays,
    between_two_weights,
    bounded_attention,
)
from tests.support.lower_fixture import (
    FORMS,
    GPU_ON_CPU,
    Run,
    expected,
    fused_kernel,
    lowered,
    run,
    run_all,
    run_each_way,
    scheduled,
)
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401
from tests.support.spirv_fixture import also_as_spirv  # noqa: F401

Shape = tuple[int, ...]

CASES: dict[str, tuple[list[Shape], dict[str, Any]]] = {
    "one head": ([(16, 16)] * 3, {"heads": 1}),
    "heads and a batch": ([(2, 33, 24)] * 3, {"heads": 3}),
    "causal": ([(150, 32)] * 3, {"heads": 2, "causal": True}),
    "more keys than queries": ([(70, 8), (300, 8), (300, 8)], {"heads": 1, "causal": True}),
    "queries that see no key": ([(90, 8), (37, 8), (37, 8)], {"heads": 2, "causal": True}),
    "shared keys": ([(45, 96), (45, 16), (45, 16)], {"heads": 12, "kv_heads": 2, "causal": True}),
    "a window": ([(90, 8), (95, 8), (95, 8)], {"heads": 1, "window": 11}),
    "a causal window": ([(1, 200, 16)] * 3, {"heads": 2, "causal": True, "window": 70}),
    "a window of one key": ([(40, 8)] * 3, {"heads": 1, "causal": True, "window": 1}),
    "another size of values": ([(30, 20), (41, 20), (41, 72)], {"heads": 2}),
    "a narrow and a wide head": ([(9, 3), (40, 3), (40, 130)], {"heads": 1}),
    "large heads": ([(20, 300), (40, 300), (40, 260)], {"heads": 1}),
    "heads of one element": ([(6, 4), (19, 2), (19, 2)], {"heads": 4, "kv_heads": 2}),
    "one query": ([(1, 1, 96), (1, 333, 32), (1, 333, 32)], {"heads": 3, "kv_heads": 1}),
    "one key": ([(5, 8), (1, 8), (1, 8)], {"heads": 2}),
    "a scale": ([(33, 16)] * 3, {"heads": 1, "scale": -0.7}),
    "a soft cap": ([(33, 16)] * 3, {"heads": 1, "softcap": 1.5}),
    "a bias": ([(2, 9, 8), (2, 70, 8), (2, 70, 8), (2, 2, 9, 70)], {"heads": 2}),
    "a bias of a key": ([(2, 9, 8), (2, 35, 8), (2, 35, 8), (35,)], {"heads": 2}),
    "a bias of a head": (
        [(2, 9, 16), (2, 35, 8), (2, 35, 8), (4, 1, 1)],
        {"heads": 4, "kv_heads": 2, "causal": True, "softcap": 3.0, "window": 20},
    ),
    "a bias of a query": ([(9, 8), (64, 8), (64, 8), (9, 1)], {"heads": 2}),
    "batches that broadcast": (
        [(2, 1, 9, 8), (3, 35, 8), (2, 3, 35, 8)],
        {"heads": 2, "causal": True},
    ),
}


def attention_kernel(shapes: list[Shape], how: dict[str, Any], element: str) -> FusedKernelOp:
    return fused_kernel(
        "attention", [(element, shape) for shape in shapes], lambda b, *x: b.attention(*x, **how)
    )


def attention_run(
    shapes: list[Shape],
    how: dict[str, Any],
    form: str,
    element: str = "f32",
    seed: int = 0,
    **schedule: Any,
) -> tuple[Run, Bounded]:
    """A kernel's run, and what it may give."""
    arrays = attention_arrays(shapes, ELEMENT_TYPES[element].dtype, seed)
    kernel = attention_kernel(shapes, how, element)
    unit = 2.0**-53 if element == "f64" else 2.0**-24
    rounding = {"f16": 2.0**-11, "bf16": 2.0**-8}.get(element, 0.0)
    wanted = bounded_attention(*arrays, **how, unit=unit, rounding=rounding)
    (meaning,) = expected(kernel, arrays)
    np.testing.assert_allclose(wanted.value, meaning, rtol=1e-9, atol=1e-12)
    return Run(kernel, arrays, FORMS[form], schedule), wanted


def check(queue: Any, *runs: tuple[Run, Bounded]) -> None:
    for found in run_each_way(queue, [item for item, _ in runs]):
        for (result,), (_, wanted) in zip(found, runs, strict=True):
            wanted.check(result)


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_attention_computes_what_the_interpreter_does(
    case: tuple[list[Shape], dict[str, Any]],
    cl_queue: Any,  # noqa: F811
) -> None:
    check(cl_queue, *(attention_run(*case, form) for form in FORMS))


def test_large_heads_in_little_memory_visit_fewer_keys_at_a_time(
    cl_queue: Any,  # noqa: F811
) -> None:
    shapes, how = CASES["large heads"]
    held, wanted = attention_run(shapes, how, "cpu")
    devices = [held.device.with_figures(local_memory=kib * 1024) for kib in (40, 48)]
    vectors = [scheduled(held.kernel, device)["key_vectors"] for device in devices]
    assert vectors == [1, 1]
    check(cl_queue, *((replace(held, device=device), wanted) for device in devices))


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("form", FORMS)
def test_other_element_types_are_computed_wide_and_rounded_once(
    form: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    shapes = [(40, 24), (50, 24), (50, 40), (40, 50)]
    how = {"heads": 2, "causal": True, "softcap": 5.0}
    check(cl_queue, *(attention_run(shapes, how, form, e) for e in ("f64", "f16", "bf16")))


@pytest.mark.parametrize("form", FORMS)
@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_random_attentions(data: Any, form: str, cl_queue: Any) -> None:  # noqa: F811
    def among(*values: Any) -> Any:
        return data.draw(st.sampled_from(values))

    kv_heads, group = among(1, 2, 3), among(1, 2, 5)
    heads, rows, keys = kv_heads * group, among(1, 3, 8, 17, 64, 65), among(1, 5, 16, 31, 64, 130)
    depth, width = among(1, 4, 6, 16, 40), among(1, 3, 8, 33, 64)
    batch = among((), (1,), (2, 2))
    shapes = [
        (*batch, rows, heads * depth),
        (*batch, keys, kv_heads * depth),
        (*batch, keys, kv_heads * width),
    ]
    bias = among(None, (heads, rows, keys), (keys,), (*batch, heads, 1, keys), (rows, 1))
    how = {
        "heads": heads,
        "kv_heads": kv_heads,
        "causal": among(False, True),
        "window": among(0, 0, 1, 9, 70),
        "softcap": among(0.0, 2.0),
    }
    shapes = [*shapes, bias] if bias else shapes
    check(cl_queue, attention_run(shapes, how, form, seed=rows * keys))


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_weights_are_rounded_where_the_operation_says_so(
    form: str,
    rounded: bool,
    cl_queue: Any,  # noqa: F811
) -> None:
    arrays, how, wanted = between_two_weights(rounded)
    kernel = attention_kernel([array.shape for array in arrays], how, "f32")
    (found,) = run(cl_queue, kernel, arrays, FORMS[form])
    np.testing.assert_allclose(found, wanted, rtol=2.0**-12)


TILED_CASES = [CASES[name] for name in ("shared keys", "a causal window", "a bias")]


def two_of(cases: list[Any], number: int) -> list[Any]:
    """All but one, another one for each number."""
    left_out = number % len(cases)
    return cases[:left_out] + cases[left_out + 1 :]


BLOCKINGS = [
    {"block_rows": 8, "block_keys": 16},
    {"block_rows": 24, "block_keys": 48, "tile_rows": 3},
    {"tile_vectors": 1, "tile_rows": 5},
    {"lanes": 4, "tile_vectors": 4, "block_keys": 32},
    {"lanes": 1},
    {"local_memory": 9000},
]


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("blocking", BLOCKINGS, ids=str)
def test_every_blocking_computes_the_same(
    blocking: dict[str, int],
    cl_queue: Any,  # noqa: F811
) -> None:
    cases = two_of(TILED_CASES, BLOCKINGS.index(blocking))
    check(cl_queue, *(attention_run(*case, "cpu", **blocking) for case in cases))


def _name_of(shape: Any) -> str:
    return "x".join(map(str, shape.numbers.values()))


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("shape", SHAPES, ids=_name_of)
def test_every_tiling_computes_the_same(shape: Any, cl_queue: Any) -> None:  # noqa: F811
    numbers = shape.numbers
    if numbers["tile_down"] * numbers["tile_across"] > GPU_ON_CPU.max_work_group_size:
        pytest.skip("more work-items than a group of the test's device has")
    tiling = {**numbers, "local_memory": 1 << 18}
    cases = two_of(TILED_CASES, SHAPES.index(shape))
    check(cl_queue, *(attention_run(*case, "gpu", **tiling) for case in cases))


@pytest.mark.parametrize("element", ["f32", "bf16", "f64"])
def test_keys_that_the_least_number_hides_weigh_alike_where_no_other_is_seen(
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    """As a padded sequence of a batch is masked: times log2(e), that number would be infinite."""
    shapes = [(3, 9, 8), (3, 70, 8), (3, 70, 8), (3, 1, 1, 70)]
    row = ELEMENT_TYPES[element]
    arrays = attention_arrays(shapes, row.dtype, 0)
    bias = arrays[3]
    bias[0] = bias[1, ..., 5:] = ml_dtypes.finfo(row.dtype).min
    bias[2], bias[2, ..., 3] = -np.inf, ml_dtypes.finfo(row.dtype).min
    kernel = attention_kernel(shapes, {"heads": 2}, element)
    runs = [Run(kernel, arrays, FORMS[form], {}) for form in FORMS]
    values = arrays[2].astype(np.float64)
    for (result,) in run_all(cl_queue, runs):
        found = result.astype(np.float64)
        tolerance = 1e-2 if element == "bf16" else 1e-6
        alike = np.broadcast_to(values[0].mean(axis=0), found[0].shape)
        np.testing.assert_allclose(found[0], alike, atol=tolerance)
        np.testing.assert_allclose(found[2], np.broadcast_to(values[2, 3], (9, 8)), atol=tolerance)


@pytest.mark.parametrize("form", FORMS)
def test_no_key_at_all_gives_zeros(form: str, cl_queue: Any) -> None:  # noqa: F811
    arrays = [np.ones(shape, np.float32) for shape in ((5, 8), (0, 8), (0, 8))]
    kernel = attention_kernel([(5, 8), (0, 8), (0, 8)], {"heads": 2}, "f32")
    (found,) = run(cl_queue, kernel, arrays, FORMS[form])
    np.testing.assert_array_equal(found, np.zeros((5, 8)))


@pytest.mark.usefixtures("also_as_spirv")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_nan_and_infinity_pass_as_in_the_interpreter(
    biased: bool,
    form: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    shapes = [(24, 8), (80, 8), (80, 8), *([(24, 80)] if biased else [])]
    arrays = attention_arrays(shapes, np.float32, 3)
    q, k, v, *rest = arrays
    q[1, 0] = np.nan
    q[2, 1] = np.inf
    q[3, 2] = -np.inf
    k[40, 5] = np.inf
    v[7, 3] = np.nan
    v[60, 6] = np.inf
    if biased:
        rest[0][5] = -np.inf
        rest[0][6, 10:70] = -np.inf
        rest[0][7, 11] = np.inf
        rest[0][8, 12] = np.nan
    kernel = attention_kernel(shapes, {"heads": 2}, "f32")
    wanted = bounded_attention(*arrays, heads=2)
    (meaning,) = expected(kernel, arrays)
    for ((found,),) in run_each_way(cl_queue, [Run(kernel, arrays, FORMS[form])]):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(meaning))
        wanted.check(found)


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("keys", [1, 5, 40, 80])
@pytest.mark.parametrize("how", [{}, {"window": 40}, {"softcap": 2.0}], ids=str)
def test_an_infinite_value_of_the_last_key_stays_infinite(
    how: dict[str, Any],
    keys: int,
    form: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    """What stands in the place of keys past the last one has a weight of 0."""
    shapes = [(8, 16), (keys, 16), (keys, 8)]
    arrays = attention_arrays(shapes, np.float32, keys)
    arrays[2][-1, 3] = np.inf
    kernel = attention_kernel(shapes, {"heads": 1, **how}, "f32")
    (found,) = run(cl_queue, kernel, arrays, FORMS[form])
    (meaning,) = expected(kernel, arrays)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(meaning))
    np.testing.assert_array_equal(np.isposinf(found), np.isposinf(meaning))


@pytest.mark.parametrize("form", FORMS)
def test_prologues_and_epilogues_are_part_of_the_kernel(form: str, cl_queue: Any) -> None:  # noqa: F811
    """Rope in its parts before queries and keys, a turn and a cast of values, a residual after."""
    shapes = [(40, 32), (40, 16), (16, 40), (1, 40, 32)]

    def build(b: Any, q: Any, k: Any, v: Any, x: Any) -> Any:
        turned = b.cast(b.transpose(b.cast(v, "f16"), [1, 0]), "f32")
        mixed = b.attention(*(rope(b, y) for y in (q, k)), turned, heads=4, kv_heads=2, causal=True)
        return b.mul(b.add(x, b.reshape(mixed, [1, 40, 32])), 0.5)

    def rope(b: Any, x: Any) -> Any:
        rows, width = x.type.get_shape()
        heads, half = width // 8, (rows, width // 8, 4)
        parts = b.reshape(x, [rows, heads, 8])
        angle = b.mul(b.cast(b.iota((rows, 1, 1), axis=0, T="i32"), "f32"), 0.1)
        first, second = b.slice(parts, (0, 0, 0), half), b.slice(parts, (0, 0, 4), (*half[:2], 8))
        quarter = b.concat([b.neg(second), first], axis=-1)
        turned = b.add(b.mul(parts, b.cos(angle)), b.mul(quarter, b.sin(angle)))
        return b.reshape(turned, [rows, width])

    kernel = fused_kernel("attention", [("f32", shape) for shape in shapes], build)
    arrays = attention_arrays(shapes, np.float32, 4)
    (found,) = run(cl_queue, kernel, arrays, FORMS[form])
    (wanted,) = Interpreter().run_op(kernel, arrays)
    # Angles up to 4 and scores up to 10 in magnitude, each off by a few units: 2^-24 * 64 * 40.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=64 * 40 * 2.0**-24)


def test_half_precision_inputs_are_not_rounded_on_the_way(cl_queue: Any) -> None:  # noqa: F811
    shapes = [(8, 64), (256, 64), (256, 64)]
    arrays = attention_arrays(shapes, ml_dtypes.bfloat16, 5)
    kernel = attention_kernel(shapes, {"heads": 1}, "bf16")
    (found,) = run(cl_queue, kernel, arrays, FORMS["cpu"])
    (wanted,) = expected(kernel, arrays)
    nearest = wanted.astype(ml_dtypes.bfloat16).astype(np.float64)
    close = np.abs(found.astype(np.float64) - wanted) <= np.abs(nearest - wanted) * (1 + 1e-3)
    assert close.mean() > 0.99


@pytest.mark.parametrize("device", ["cpu", "nvidia-h200"])
def test_heads_that_fit_no_tile_are_an_error(device: str) -> None:
    kernel = attention_kernel([(8, 6000)] * 3, {"heads": 1}, "f32")
    with pytest.raises(VerifyException, match="heads of 6000 and 6000 elements do not fit"):
        lowered(kernel, DEVICES[device])


def test_a_gpu_with_sub_groups_exchanges_scores_in_registers() -> None:
    kernel = attention_kernel([(256, 64)] * 3, {"heads": 1}, "f32")
    function = lowered(kernel, DEVICES["nvidia-h200"])
    assert any(isinstance(op, SubGroupShuffleOp) for op in function.walk())
    without = lowered(kernel, GPU_ON_CPU)
    barriers = [sum(isinstance(op, BarrierOp) for op in f.walk()) for f in (function, without)]
    assert barriers[0] < barriers[1]
    assert not any(isinstance(op, SubGroupShuffleOp) for op in without.walk())
