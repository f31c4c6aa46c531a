"""Blocks of keys that a bias hides from all rows of a CPU's work-item are passed by."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import memref, scf, vector

from tests.passes.lower_kernels.attention.test_attention_hidden import attended, kernel_for, same
from tests.support.lower_fixture import FORMS, Run, lowered, run_all
from tests.support.opencl_fixture import cl_queue, unoptimised  # noqa: F401

INF, NAN = np.inf, np.nan
SMALL = {"tile_rows": 2, "block_rows": 4, "block_keys": 16, "tile_vectors": 1}


def cached(rows: int, keys: int, heads: int) -> dict[str, np.ndarray]:
    """Biases that hide whole blocks of keys, by how."""
    key, row = np.arange(keys), np.arange(rows)[:, None]
    own = np.stack([np.where((key // 40) % heads == head, 0.5, -INF) for head in range(heads)])
    return {
        "of a cache": np.where(key <= keys // 3, 0.0, -INF)[None],
        "behind": np.where(key >= keys - 5, -1.5, -INF)[None],
        "of each query": np.where(key <= row + keys - rows - 30, 0.0, -INF),
        "of each head": np.broadcast_to(own[:, None], (heads, 1, keys)),
        "nothing is seen": np.full((1, keys), -INF),
        "the least number": np.full((1, keys), -3.4028235e38),
        "a number": np.array(0.5),
        "a number that hides": np.array(-INF),
        "nan": np.where(key == keys - 7, NAN, np.where(key < 8, 0.0, -INF))[None],
    }


@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("rows", [1, 11])
@pytest.mark.parametrize("name", cached(1, 100, 2))
def test_what_is_hidden_in_blocks_counts_for_nothing(name: str, rows: int, cl_queue: Any) -> None:  # noqa: F811
    keys = 205
    how: dict[str, Any] = {"heads": 4, "kv_heads": 2}
    rng = np.random.default_rng(3)
    q, k, v = (
        rng.standard_normal((n, heads * 16)).astype(np.float32)
        for n, heads in ((rows, 4), (keys, 2), (keys, 2))
    )
    bias = np.array(cached(rows, keys, 4)[name], np.float32)
    if name not in ("the least number", "a number", "nan"):
        k[120:122], v[120:122] = NAN, INF
    kernel = kernel_for([q, k, v, bias], how)
    wanted = attended(q, k, v, bias, **how)
    if name == "the least number":
        each = v.astype(np.float64).mean(0).reshape(2, 1, 16)
        wanted = np.broadcast_to(np.broadcast_to(each, (2, 2, 16)).reshape(64), (rows, 64))
    runs = [Run(kernel, [q, k, v, bias], FORMS["cpu"], entries) for entries in ({}, SMALL)]
    for (found,) in run_all(cl_queue, runs):
        same(found, wanted)


def test_hidden_blocks_are_not_read() -> None:
    arrays = [np.zeros(shape, np.float32) for shape in ((1, 16), (300, 16), (300, 16), (1, 300))]
    function = lowered(kernel_for(arrays, {"heads": 1}), FORMS["cpu"])
    keys = function.body.block.args[1]
    reads = [use.operation for use in keys.uses]
    assert reads and all(isinstance(read, memref.LoadOp | vector.LoadOp) for read in reads)
    for read in reads:
        around = read.parent_op()
        while around is not None and not isinstance(around, scf.IfOp):
            around = around.parent_op()
        assert around is not None, "keys are read before it is known whether any of them is seen"
