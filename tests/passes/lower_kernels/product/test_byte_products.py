"""Products of bytes that add up in i32: exact, in every form."""

from typing import Any

import numpy as np
import pytest

from mgn.dialects.types import ELEMENT_TYPES
from tests.support.lower_fixture import Run, check_all, forms_of, fused_kernel, same_values
from tests.support.opencl_fixture import cl_queue  # noqa: F401

SHAPES = [
    ((1, 576), (40, 576), True),
    ((1, 33), (7, 33), True),
    ((3, 64), (64, 50), False),
    ((37, 130), (45, 130), True),
    ((2, 20, 31), (31, 17), False),
    ((5, 0), (0, 3), False),
    ((1, 1), (1, 1), False),
]


@pytest.mark.parametrize("element", ["i8", "u8"])
def test_products_of_bytes_add_up_in_i32(cl_queue: Any, element: str) -> None:  # noqa: F811
    rng, i32 = np.random.default_rng(3), ELEMENT_TYPES["i32"]
    limits = np.iinfo(ELEMENT_TYPES[element].dtype or np.int8)
    runs: list[Run] = []
    for number, (left, right, transposed) in enumerate(SHAPES):
        kernel = fused_kernel(
            "contraction",
            [(element, left), (element, right)],
            lambda b, x, w, t=transposed: b.matmul(b.cast(x, i32), b.cast(w, i32), transpose_b=t),
        )
        arrays = [
            rng.integers(limits.min, limits.max + 1, shape).astype(limits.dtype)
            for shape in (left, right)
        ]
        runs += forms_of(kernel, arrays, str(number))
    check_all(cl_queue, runs, same_values)
