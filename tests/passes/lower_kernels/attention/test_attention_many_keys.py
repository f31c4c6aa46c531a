"""Attention over very many keys: sums that begin anew in blocks give what one chain gives, but for
its error. Loops are cut early here, so that few keys are many.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.scf import ForOp

from mgn.passes.lower_kernels.attention import blocks as attention_blocks
from mgn.passes.lower_kernels.attention import rows as attention_rows
from mgn.passes.schedules.attention import blocks as attention_blocking
from tests.passes.lower_kernels.attention.test_attention_kernels import (
    attention_kernel,
    attention_run,
    check,
)
from tests.support.lower_fixture import FORMS, expected, lowered, run
from tests.support.opencl_fixture import cl_queue  # noqa: F401

CASES: list[tuple[list[tuple[int, ...]], dict[str, Any]]] = [
    ([(7, 8), (1000, 8), (1000, 8)], {"heads": 1}),
    ([(70, 8), (300, 8), (300, 8)], {"heads": 1, "causal": True}),
    ([(2, 45, 96), (2, 330, 16), (2, 330, 16)], {"heads": 12, "kv_heads": 2, "window": 200}),
    ([(90, 8), (37, 8), (37, 8)], {"heads": 2, "causal": True}),
]
SMALL = {
    "cpu": {"tile_rows": 3, "block_rows": 6, "block_keys": 16, "tile_vectors": 1},
    "gpu": {"tile_keys": 16},
}


@pytest.fixture
def cut_early(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module, names in (
        (attention_blocks, {"BLOCK": 2, "MOST_TILES": 2}),
        (attention_rows, {"BLOCK": 2, "MOST_KEYS": 32}),
        (attention_blocking, {"MOST_KEYS": 32}),
    ):
        for name, value in names.items():
            monkeypatch.setattr(module, name, value)
    yield


@pytest.mark.usefixtures("cut_early")
def test_sums_begin_anew_in_blocks_of_keys(cl_queue: Any) -> None:  # noqa: F811
    runs = [
        attention_run(*case, form, **entries) for case in CASES for form, entries in SMALL.items()
    ]
    check(cl_queue, *runs)


@pytest.mark.usefixtures("cut_early")
@pytest.mark.parametrize("form", SMALL)
def test_only_long_loops_are_cut(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def loops() -> int:
        kernel = attention_kernel(*CASES[0], "f32")
        operations = lowered(kernel, FORMS[form], **SMALL[form]).walk()
        return sum(isinstance(op, ForOp) for op in operations)

    cut = loops()
    monkeypatch.setattr(attention_rows, "MOST_KEYS", 1000)
    monkeypatch.setattr(attention_blocks, "MOST_TILES", 1000)
    assert loops() < cut


@pytest.mark.parametrize("form", SMALL)
def test_a_mean_of_many_values_is_as_exact_as_one_of_few(
    form: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    """Where scores are equal, attention is the mean of the values, here one number; chains are of
    4096 keys, and one of 100,000 is off by 1e-3.
    """
    keys = 100_000
    shapes = [(9, 4), (keys, 4), (keys, 8)]
    arrays = [np.zeros(shapes[0]), np.ones(shapes[1]), np.full(shapes[2], 0.1)]
    arrays = [np.float32(array) for array in arrays]
    kernel = attention_kernel(shapes, {"heads": 1}, "f32")
    (got,) = run(cl_queue, kernel, arrays, FORMS[form])
    np.testing.assert_allclose(got, expected(kernel, arrays)[0], rtol=5e-5)
