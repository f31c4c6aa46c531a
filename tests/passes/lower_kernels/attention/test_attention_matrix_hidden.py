"""Attention on matrix units where keys and values that a query does not see hold nan or infinities.

The reference looks at the keys that a query sees, one query at a time, in f64. Where there is no
matrix unit, the same kernels run with sub-groups that exchange registers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith

from mgn.dialects.kernel import DEVICES, Device, GroupMmaHeldOp
from mgn.passes.lower_kernels.attention.repair import Repair
from tests.passes.lower_kernels.attention.test_attention_hidden import (
    CASES,
    INF,
    NAN,
    attended,
    same,
    spoilt,
)
from tests.passes.lower_kernels.attention.test_attention_matrix import (
    DTYPES,
    NAMES,
    kernel_of,
    rounded,
)
from tests.support.lower_fixture import Run, lowered, pieces, run, run_all
from tests.support.matrix_unit_fixture import device  # noqa: F401
from tests.support.opencl_fixture import cl_queue  # noqa: F401

Array = np.ndarray
TOLERANCE = {"bf16": 2e-2, "f16": 3e-3, "tf32": 3e-3}


Asked = tuple[list[Array], dict[str, Any], str]
"""Operands, what attention is asked for, and the type that the unit takes."""


def check(queue: Any, unit: Device, asked: Sequence[Asked], **schedule: Any) -> None:
    """What comes of each, built as one program."""
    runs: list[Run] = []
    for arrays, how, name in asked:
        operands = [rounded(array, name).astype(DTYPES[name]) for array in arrays]
        kernel = kernel_of([array.shape for array in arrays], how, name)
        entries = {**schedule, "matrix": name, "matrix_unit": unit.matrix_unit}
        runs.append(Run(kernel, operands, unit, entries))
    for (_, how, name), item, (found,) in zip(asked, runs, run_all(queue, runs), strict=True):
        wanted = attended(*item.arrays, **how)
        assert np.isfinite(wanted).any()
        same(found, wanted, TOLERANCE[name])


@pytest.mark.parametrize("case", [case for case in CASES if "one query" not in case])
def test_what_hidden_keys_hold_does_not_leak(case: str, cl_queue: Any, device: Device) -> None:  # noqa: F811
    shapes, biased, how = CASES[case]
    arrays = spoilt(shapes, biased)
    if "window" in how and "causal" not in how:
        arrays[1:3] = [np.ascontiguousarray(array[::-1]) for array in arrays[1:3]]
    check(cl_queue, device, [(arrays, how, name) for name in NAMES])


@pytest.mark.parametrize("name", ["bf16", "f16"])
@pytest.mark.parametrize("warps", [4, 8])
def test_nor_does_it_where_four_sub_groups_multiply_together(
    warps: int,
    name: str,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    how = {"heads": 2, "kv_heads": 1, "causal": True}
    arrays = spoilt([(70, 128), (150, 64), (150, 64)], False)
    tiling = {"tile_down": warps, "groups": 1}
    kernel = kernel_of([array.shape for array in arrays], how, name)
    function = lowered(kernel, device, matrix=name, matrix_unit=device.matrix_unit, **tiling)
    assert any(isinstance(op, GroupMmaHeldOp) for op in function.walk())
    check(cl_queue, device, [(arrays, how, name)], **tiling)


@pytest.mark.parametrize("causal", [False, True], ids=["a bias", "causal"])
def test_nor_does_it_where_keys_are_looked_at_in_parts(
    causal: bool,
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
) -> None:
    how = {"heads": 8, "kv_heads": 1, "causal": causal}
    arrays = spoilt([(2, 64), (1100, 8), (1100, 8)], not causal)
    for name in NAMES:
        operands = [rounded(array, name).astype(DTYPES[name]) for array in arrays]
        kernel = kernel_of([array.shape for array in arrays], how, name)
        known = dict(zip(kernel.inputs, operands, strict=True))
        first, second = pieces(kernel, DEVICES["nvidia-h200"].with_figures(launch_cost=0.0))
        schedule = {"matrix": name, "matrix_unit": device.matrix_unit}
        for part, entries in ((first, schedule), (second, {})):
            outputs = run(
                cl_queue, part, [known[value] for value in part.inputs], device, **entries
            )
            known.update(zip(part.outputs, outputs, strict=True))
        same(known[second.outputs[0]], attended(*operands, **how), TOLERANCE[name])


def drawn(seed: int) -> tuple[list[Array], dict[str, Any]]:
    """Operands of a size, and what hides keys of them: some hold what is not finite."""
    rng = np.random.default_rng(seed)

    def size(least: int, most: int) -> int:
        return int(rng.integers(least, most, endpoint=True))

    kv_heads, group = size(1, 2), size(1, 3)
    heads, rows, keys = kv_heads * group, size(8, 90), size(5, 140)
    depth, width = 8 * size(1, 5), size(1, 9) * int(rng.choice([1, 2, 8]))
    how: dict[str, Any] = {"heads": heads, "kv_heads": kv_heads, "causal": bool(rng.random() < 0.5)}
    if rng.random() < 0.4:
        how["window"] = size(1, keys)
    if rng.random() < 0.3:
        how["softcap"] = 3.0
    shapes = [(rows, heads * depth), (keys, kv_heads * depth), (keys, kv_heads * width)]
    q, k, v = (rng.standard_normal(shape).astype(np.float32) for shape in shapes)
    spoilt_keys = rng.permutation(keys)[: 2 + keys // 20]
    k[spoilt_keys[0], size(0, shapes[1][1] - 1)] = rng.choice([NAN, INF, -INF])
    for key in spoilt_keys[1:]:
        v[key, rng.random(shapes[2][1]) < 0.3] = rng.choice([NAN, INF, -INF])
    arrays = [q, k, v]
    if rng.random() < 0.6 or not (how["causal"] or "window" in how):
        of_head, of_row = (int(rng.choice([1, n])) for n in (heads, rows))
        seen = rng.random((of_head, of_row, keys)) < 0.8
        seen[..., spoilt_keys] &= rng.random((of_head, of_row, len(spoilt_keys))) < 0.1
        bias = rng.standard_normal(seen.shape)
        arrays.append(np.where(seen, bias, -INF).astype(np.float32))
    return arrays, how


@pytest.mark.parametrize("seeds", [range(12), range(12, 24)], ids=["first", "others"])
def test_nor_does_it_whatever_hides_it(seeds: range, cl_queue: Any, device: Device) -> None:  # noqa: F811
    check(cl_queue, device, [(*drawn(seed), NAMES[seed % len(NAMES)]) for seed in seeds])


def test_rows_are_summed_up_anew_where_values_are_not_finite_alone(
    cl_queue: Any,  # noqa: F811
    device: Device,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where terms that are summed up anew count twice, rows of finite values show none of it."""
    shapes, biased, how = CASES["a bias"]
    arrays = spoilt(shapes, biased)
    finite = [*arrays[:2], np.where(np.isfinite(arrays[2]), arrays[2], 1), arrays[3]]
    term = Repair.term

    def doubled(self: Repair, *of_key: Any) -> Any:
        one = term(self, *of_key)
        return self.job.code.binary(arith.AddfOp, one, one)

    monkeypatch.setattr(Repair, "term", doubled)
    check(cl_queue, device, [(finite, how, "f16")])
    with pytest.raises(AssertionError):
        check(cl_queue, device, [(arrays, how, "f16")])
