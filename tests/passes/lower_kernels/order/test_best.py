"""Groups of a GPU that find the first few of a row, whatever order it is in."""

from typing import Any

import numpy as np
import pytest

from mgn.passes.lower_kernels.order.best import stride_over
from mgn.passes.schedules.order import OrderVariant
from tests.support.lower_fixture import GPU_ON_CPU, Run, check_all, fused_kernel, same_values
from tests.support.opencl_fixture import cl_queue  # noqa: F401


@pytest.mark.parametrize("element", ["f32", "i64"])
def test_the_first_few_of_rows_in_any_order_are_found(element: str, cl_queue: Any) -> None:  # noqa: F811
    length, kept = 9001, 64
    rising = np.arange(length)
    ties = rising // 300
    rows = [rising, -rising, ties, -ties, np.full(length, 7), rising % 513, rising * 7919 % length]
    keys = np.array(rows, np.float32 if element == "f32" else np.int64)
    if element == "f32":
        keys[0, ::7], keys[3, 5000:] = np.nan, -np.inf
    places = np.broadcast_to(np.arange(length, dtype=np.int32), keys.shape).copy()
    runs: list[Run] = []
    for descending in (False, True):
        kernel = fused_kernel(
            "order",
            [(element, keys.shape), ("i32", keys.shape)],
            lambda b, x, p, d=descending: b.sort_runs(x, p, axis=1, descending=d, first=kept),
        )
        schedule = {"variant": OrderVariant.BEST}
        runs.append(Run(kernel, [keys, places], GPU_ON_CPU, schedule, f"{element} {descending}"))
    check_all(cl_queue, runs, same_values)


def test_few_tiles_of_a_row_in_order_have_better_elements_than_those_before() -> None:
    for tiles in range(1, 600):
        visits = np.arange(tiles) * stride_over(tiles) % tiles
        assert len(set(visits)) == tiles
        for order in (visits, -visits):
            better = np.sum(order[1:] > np.maximum.accumulate(order)[:-1]) if tiles > 1 else 0
            assert better <= 5 * np.log2(tiles) + 1, tiles
