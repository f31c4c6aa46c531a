"""Attention on hard data: nan and infinities at hidden keys, numbers near the largest one.

The reference looks at the keys that a query sees, one query at a time, in f64.
"""

from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.types import ELEMENT_TYPES
from mgn.passes.saturate import RuleClass, SaturateOptions
from tests.passes.arrangements.test_split_attention import EAGER
from tests.support.lower_fixture import (
    FORMS,
    GPU_ON_CPU,
    Run,
    expected,
    fused_kernel,
    pieces,
    run,
    run_all,
)
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

Array = np.ndarray
INF, NAN = np.inf, np.nan


def attended(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None = None,
    heads: int = 1,
    kv_heads: int | None = None,
    causal: bool = False,
    window: int = 0,
    scale: float | None = None,
    softcap: float = 0.0,
) -> Array:
    """Attention of [S, heads * d], in which what a query does not see is not looked at."""
    kv_heads = kv_heads or heads
    (rows, width), keys = q.shape, k.shape[0]
    q, k, v = (
        x.astype(np.float64).reshape(x.shape[0], count, -1)
        for x, count in ((q, heads), (k, kv_heads), (v, kv_heads))
    )
    scale = (width // heads) ** -0.5 if scale is None else scale
    wide = None if bias is None else np.broadcast_to(bias, (heads, rows, keys)).astype(np.float64)
    result = np.zeros((rows, heads, v.shape[-1]))
    for head in range(heads):
        own = head * kv_heads // heads
        for row in range(rows):
            last = row + keys - rows
            seen = [
                key
                for key in range(keys)
                if (not causal or key <= last)
                and (not window or key > last - window)
                and (wide is None or wide[head, row, key] != -INF)
            ]
            if not seen:
                continue
            with np.errstate(all="ignore"):
                scores = (k[seen, own] * q[row, head]).sum(-1) * scale
                scores = np.tanh(scores / softcap) * softcap if softcap else scores
                scores = scores if wide is None else scores + wide[head, row, seen]
                weights = np.exp(scores - scores.max())
                result[row, head] = (weights[:, None] * v[seen, own]).sum(0) / weights.sum()
    return result.reshape(rows, -1)


def bias_of(rows: int, keys: int) -> Array:
    """A bias that hides about half of the keys, and some in pairs of rows."""
    rng = np.random.default_rng(5)
    bias = np.where(rng.random((rows, keys)) < 0.5, -INF, rng.standard_normal((rows, keys)))
    bias[rows // 2] = -INF
    bias[:, keys // 2 :][:3] = -INF
    return bias.astype(np.float32)


SHARED = {"heads": 6, "kv_heads": 2, "causal": True}
CASES: dict[str, tuple[list[tuple[int, int]], bool, dict[str, Any]]] = {
    # name: shapes of q, k and v, whether there is a bias, attributes
    "causal": ([(70, 24)] * 3, False, {"heads": 2, "causal": True}),
    "shared keys": ([(33, 48), (40, 16), (40, 22)], False, SHARED),
    "a window": ([(60, 8), (70, 8), (70, 5)], False, {"heads": 1, "window": 9}),
    "a causal window": ([(150, 16)] * 3, False, {"heads": 1, "causal": True, "window": 70}),
    "blind queries": ([(40, 8), (17, 8), (17, 8)], False, {"heads": 1, "causal": True}),
    "a bias": ([(20, 16), (75, 16), (75, 16)], True, {"heads": 2}),
    "a capped bias": ([(20, 16), (75, 16), (75, 16)], True, {"heads": 2, "softcap": 2.0}),
    "one query": ([(1, 32), (90, 32), (90, 32)], True, {"heads": 2}),
    "one query and a window": ([(1, 32), (90, 32), (90, 32)], False, {"heads": 2, "window": 30}),
}  # fmt: skip


def spoilt(
    shapes: list[tuple[int, int]], biased: bool, dtype: Any = np.float32, seed: int = 0
) -> list[Array]:
    """Operands with nan and infinities in a few keys and values, some at the end of both."""
    rng = np.random.default_rng(seed)
    q, k, v = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    keys = k.shape[0]
    k[keys - 1, 0], k[keys // 3, 1], k[keys // 2, 2] = NAN, INF, -INF
    v[keys - 1, 1], v[keys // 4, 0], v[keys - 2, 2], v[keys - 3, 2] = NAN, INF, -INF, INF
    return [q, k, v, *([bias_of(q.shape[0], keys).astype(dtype)] if biased else [])]


def kernel_for(arrays: list[Array], how: dict[str, Any], element: str = "f32") -> FusedKernelOp:
    types = [(element, array.shape) for array in arrays]
    return fused_kernel("attention", types, lambda b, *x: b.attention(*x, **how))


def same(found: Array, wanted: Array, tolerance: float = 2e-5) -> None:
    """Numbers that agree, with nan and infinities in the same places."""
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_what_hidden_keys_hold_does_not_leak(name: str, cl_queue: Any) -> None:  # noqa: F811
    shapes, biased, how = CASES[name]
    arrays = spoilt(shapes, biased)
    if "window" in how and "causal" not in how:
        arrays[1:3] = [np.ascontiguousarray(array[::-1]) for array in arrays[1:3]]
    wanted = attended(*arrays, **how)
    assert np.isfinite(wanted).any()
    kernel = kernel_for(arrays, how)
    (meaning,) = expected(kernel, arrays)
    same(meaning, wanted, 1e-6)
    for (found,) in run_all(cl_queue, [Run(kernel, arrays, FORMS[form]) for form in FORMS]):
        same(found, wanted)


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
def test_nor_does_it_in_other_element_types(element: str, cl_queue: Any) -> None:  # noqa: F811
    row, how = ELEMENT_TYPES[element], {"heads": 2}
    arrays = spoilt([(20, 16), (75, 16), (75, 16)], True, row.dtype)
    wanted = attended(*arrays, **how)
    kernel = kernel_for(arrays, how, element)
    tolerance = {"f16": 2e-3, "bf16": 2e-2, "f64": 1e-12}[element]
    for (found,) in run_all(cl_queue, [Run(kernel, arrays, FORMS[form]) for form in FORMS]):
        same(found, wanted, tolerance)


@pytest.mark.parametrize("causal", [False, True], ids=["a bias", "causal"])
def test_nor_does_it_where_keys_are_looked_at_in_parts(causal: bool, cl_queue: Any) -> None:  # noqa: F811
    shapes = [(3, 8), (640, 8), (640, 8)]
    arrays = spoilt(shapes, not causal)
    how = {"heads": 1, "causal": causal}
    known = dict(zip((kernel := kernel_for(arrays, how)).inputs, arrays, strict=True))
    made = pieces(kernel, EAGER)
    assert len(made) == 2
    for part in made:
        outputs = run(cl_queue, part, [known[value] for value in part.inputs], GPU_ON_CPU)
        known.update(zip(part.outputs, outputs, strict=True))
    same(known[made[-1].outputs[0]], attended(*arrays, **how))


SLOPE = "cast(iota([70]), f32) * 0.01"
MASKS = {
    # how a program hides keys, with `m` where they are seen
    "a bias": "attention(q, k, v, where(m, 0.0, -inf), heads = 1, scale = 1.0)",
    "a choice": "softmax(where(m, q @ k.T, -inf)) @ v",
    "a sum": "softmax(q @ k.T + where(m, 0.0, -inf)) @ v",
    "the least number": "softmax(where(m, q @ k.T, -3.4028234663852886e38)) @ v",
    "a far number": "softmax(where(m, q @ k.T, -1e30)) @ v",
    "a far scaled number": "softmax(where(m, q @ k.T * 0.5, -1e30)) @ v",
    "a far number and a slope": f"softmax(where(m, q @ k.T, -1e30) + {SLOPE}) @ v",
    "a far number after a slope": f"softmax(where(m, q @ k.T + {SLOPE}, -1e30)) @ v",
    "a choice and a slope": f"softmax(where(m, q @ k.T, -inf) + {SLOPE}) @ v",
    "a choice after a slope": f"softmax(where(m, q @ k.T + {SLOPE}, -inf)) @ v",
}


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("rules", ["default", "exact"])
def test_a_hidden_score_does_not_leak_however_it_is_hidden(name: str, rules: str) -> None:
    """In the key; what a hidden value holds leaks where the program multiplies it by 0 itself."""
    rows, keys = 48, 70
    rng = np.random.default_rng(1)
    q, k, v = (rng.standard_normal((n, 16)).astype(np.float32) for n in (rows, keys, keys))
    seen = rng.random((rows, keys)) < 0.6
    seen[:, [7, 40, 69]] = False
    k[7], k[40, 3], k[69, 5] = NAN, INF, NAN
    if name == "a sum":
        k[40, 3] = k[69, 5] = k[7] = 1.0
    if name == "a bias":
        v[7, 2], v[69] = NAN, INF
    text = f"""graph g(q: f32[{rows}, 16], k: f32[{keys}, 16], v: f32[{keys}, 16],
                       m: bool[{rows}, {keys}]) {{ return y = {MASKS[name]} }}"""
    classes = {"exact": frozenset({RuleClass.EXACT})}.get(rules)
    options = SaturateOptions() if classes is None else SaturateOptions(classes=classes)
    exe = mgn.compile(mgn.parse(text), saturation=options)
    slope = 0.01 * np.arange(keys) if "slope" in name else 0.0
    bias = np.where(seen, slope, -INF)
    scale = 0.5 if "scaled" in name else 1.0
    same(exe(q=q, k=k, v=v, m=seen)["y"], attended(q, k, v, bias, scale=scale))


LARGE: dict[str, tuple[float, float, float, dict[str, Any]]] = {
    # name: magnitudes of queries, keys and values, attributes
    "values": (1.0, 1.0, 2e38, {}),
    "causal values": (0.01, 1.0, 2e38, {"causal": True}),
    "queries, keys and a scale": (1e30, 1e-30, 1.0, {"scale": 1e10}),
    "scores": (1e19, 1e18, 1.0, {"scale": 1.0}),
    "scores and a scale below 0": (1e19, 1e18, 1.0, {"scale": -1.0}),
    "scores that a small scale brings back": (1e19, 1e18, 1.0, {"scale": 1e-37}),
    "capped scores": (1e19, 1e18, 1.0, {"softcap": 30.0, "scale": 1e-3}),
    "a scale and a cap at the ends": (1e10, 1e10, 1.0, {"softcap": 1e30, "scale": 1e-20}),
}


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
def test_a_mean_of_finite_values_is_finite(name: str, biased: bool, cl_queue: Any) -> None:  # noqa: F811
    of_q, of_k, of_v, how = LARGE[name]
    rng = np.random.default_rng(2)
    shapes, sizes = [(24, 8), (1000, 8), (1000, 8)], (of_q, of_k, of_v)
    arrays = [
        (np.clip(rng.standard_normal(shape), -1.5, 1.5) * size).astype(np.float32)
        for shape, size in zip(shapes, sizes, strict=True)
    ]
    arrays[2] = np.abs(arrays[2])
    if biased:
        arrays.append(np.zeros((24, 1000), np.float32))
    how = {"heads": 1, **how}
    wanted = attended(*arrays, **how)
    kernel = kernel_for(arrays, how)
    (meaning,) = expected(kernel, arrays)
    np.testing.assert_allclose(meaning, wanted, rtol=1e-6)
    for (found,) in run_all(cl_queue, [Run(kernel, arrays, FORMS[form]) for form in FORMS]):
        np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=1e-6 * of_v)


def test_parts_of_keys_do_not_overflow_either(cl_queue: Any) -> None:  # noqa: F811
    arrays = [np.full(shape, 1.0, np.float32) for shape in ((2, 8), (700, 8), (700, 8))]
    arrays[2][:] = 3e38
    kernel = kernel_for(arrays, {"heads": 1})
    known = dict(zip(kernel.inputs, arrays, strict=True))
    for part in (made := pieces(kernel, EAGER)):
        outputs = run(cl_queue, part, [known[value] for value in part.inputs], GPU_ON_CPU)
        known.update(zip(part.outputs, outputs, strict=True))
    np.testing.assert_allclose(known[made[-1].outputs[0]], 3e38, rtol=1e-5)
