"""What follows attention's gradient in its kernel, and what hidden keys hold, against the
interpreter, in all variants of the template.

Where there is no matrix unit, the same kernels run with sub-groups that exchange registers.
"""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mgn.dialects.fusion.attention_bodies import ATTENTION_GRADIENT
from mgn.dialects.kernel import Device
from tests.support.lower_fixture import Run, check_all, expected, forms_of, fused_kernel, scheduled
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

_, QUERIES, KEYS = ATTENTION_GRADIENT
HIDING: list[dict[str, Any]] = [{"causal": True}, {"window": 40}, {"causal": True, "window": 30}]
ROWS, COUNT, HEADS, KV_HEADS, DEPTH, WIDTH = 70, 150, 2, 1, 16, 24
ROUNDINGS: dict[str, Callable[[Any, Any], Any]] = {
    "f32": lambda b, value: value,
    "bf16": lambda b, value: b.cast(value, "f32"),
    "tf32": lambda b, value: b.round_tf32(value),
}


def kernel_of(name: str, how: dict[str, Any], unit: str, bias: bool = False) -> Any:
    """A kernel of both parts of a gradient of keys and values, the values in bf16; or of a gradient
    of queries, halved.
    """
    q, k, v = (2, ROWS, HEADS * DEPTH), (COUNT, KV_HEADS * DEPTH), (COUNT, KV_HEADS * WIDTH)
    shapes = [q, k, v, (2, ROWS, HEADS * WIDTH), (2, ROWS, HEADS), (2, ROWS, HEADS)]
    types = ["bf16" if unit == "bf16" else "f32"] * 4 + ["f32"] * 2
    if bias:
        shapes, types = [*shapes, (1, COUNT)], [*types, "f32"]

    def build(b: Any, *operands: Any) -> Any:
        given = [ROUNDINGS[unit](b, x) for x in operands[:4]]
        found = b.call(name, *given, *operands[4:], heads=HEADS, kv_heads=KV_HEADS, **how)
        if name == QUERIES:
            return b.reshape(b.mul(found, 0.5), (2, ROWS, HEADS, DEPTH))
        keys, both = KV_HEADS * DEPTH, KV_HEADS * (DEPTH + WIDTH)
        of_values = b.slice(found, [0, 0, keys], [2, COUNT, both])
        return b.slice(found, [0, 0, 0], [2, COUNT, keys]), b.cast(of_values, "bf16")

    return fused_kernel("attention_gradient", list(zip(types, shapes, strict=True)), build)


def arrays_for(how: dict[str, Any], unit: str) -> list[np.ndarray]:
    """Operands; the log-sum-exp is that of the scores that queries see."""
    random = np.random.default_rng(len(how))
    shapes = [(2, ROWS, HEADS * DEPTH), (COUNT, KV_HEADS * DEPTH), (COUNT, KV_HEADS * WIDTH)]
    shapes += [(2, ROWS, HEADS * WIDTH), (2, ROWS, HEADS), (2, ROWS, HEADS)]
    found = [random.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    found[4] += np.float32(np.log(COUNT))
    held = ml_dtypes.bfloat16 if unit == "bf16" else np.float32
    return [*(array.astype(held) for array in found[:4]), *found[4:]]


def spoilt(arrays: list[np.ndarray], how: dict[str, Any]) -> list[np.ndarray]:
    """The same where keys that no query sees hold nan and infinities, and queries from the 11th on
    see the others; keys and values of two more are seen by some queries alone, which see nan.
    """
    q, k, v, *rest = (array.copy() for array in arrays)
    if "window" in how:
        k[:3], v[2:5] = np.nan, np.inf
    if how.get("causal"):
        k[-1], v[-2] = -np.inf, np.nan
    return [q, k, v, *rest]


def check(run: Run, got: list[np.ndarray], want: list[np.ndarray]) -> None:
    terms = 4 * (ROWS + COUNT) ** 0.5
    for one, other in zip(got, want, strict=True):
        finite = np.isfinite(other)
        assert finite.any()
        bound = 2.0**-8 if one.dtype == ml_dtypes.bfloat16 else terms * 2.0**-16
        most = np.abs(other[finite]).max()
        one = one.astype(np.float64)
        np.testing.assert_array_equal(np.isfinite(one), finite, run.what)
        np.testing.assert_allclose(
            one[finite], other[finite], rtol=0, atol=bound * most, err_msg=run.what
        )


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", [QUERIES, KEYS])
def test_kernels_write_what_follows_and_hide_what_is_not_seen(
    name: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    runs: list[Run] = []
    for how in HIDING:
        arrays = spoilt(arrays_for(how, "f32"), how)
        runs += forms_of(kernel_of(name, how, "f32"), arrays, f"{name} {how}")
    arrays = arrays_for({}, "f32")
    arrays[1][5:9], arrays[2][7:12] = np.nan, np.inf
    bias = np.zeros((1, COUNT), np.float32)
    bias[:, 5:12] = -np.inf
    kernel = kernel_of(name, {}, "f32", bias=True)
    runs += forms_of(kernel, [*arrays, bias], f"{name} with a bias")
    check_all(cl_queue, runs, check)


@pytest.mark.parametrize("name", [QUERIES, KEYS])
@pytest.mark.parametrize("unit", ["bf16", "tf32"])
@pytest.mark.parametrize("case", range(len(HIDING)))
def test_so_do_those_on_a_unit(
    case: int,
    unit: str,
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    how = HIDING[case]
    kernel, arrays = kernel_of(name, how, unit), spoilt(arrays_for(how, unit), how)
    assert scheduled(kernel, device)["variant"] == "matrix walk"
    fixed = {"matrix": unit, "matrix_unit": device.matrix_unit, "local_memory": 1 << 18}
    check_all(cl_queue, [Run(kernel, arrays, device, fixed, f"{unit} {name} {how}")], check)


def test_these_operands_are_hidden_from_some_queries_alone() -> None:
    for how in HIDING:
        kernel, arrays = kernel_of(QUERIES, how, "f32"), spoilt(arrays_for(how, "f32"), how)
        (found,) = expected(kernel, arrays)
        assert np.isfinite(found).any() and not all(np.isfinite(x).all() for x in arrays)
