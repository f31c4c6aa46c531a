"""Counting in local memory: OpenCL C and SPIR-V against NumPy."""

import re
from typing import Any

import numpy as np
import pytest

from mgn.codegen.opencl.opencl import emit
from mgn.dialects.kernel import DEVICES
from tests.codegen import test_opencl_codegen as opencl_tests
from tests.codegen.test_opencl_codegen import run_text
from tests.support.opencl_fixture import build_unoptimised, cl_queue, kernel  # noqa: F401
from tests.support.spirv_fixture import need_spirv, spirv_signature

COUNTS = """
kernel.func @counts(%x : memref<128xi32>, %y : memref<128xi32>) access [read, write]
    global [128, 1, 1] local [64, 1, 1] {
  %m = kernel.local_alloc : memref<16xi32, #kernel.space<local>>
  %place = kernel.local_id 0
  %sixteen = arith.constant 16 : index
  %own = arith.remsi %place, %sixteen : index
  %seven = arith.constant 7 : i32
  memref.store %seven, %m[%own] : memref<16xi32, #kernel.space<local>>
  kernel.barrier
  %i = kernel.global_id 0
  %v = memref.load %x[%i] : memref<128xi32>
  %digit = arith.index_cast %v : i32 to index
  %lanes = arith.constant 32 : index
  %eight = arith.constant 8 : index
  %group = arith.divsi %place, %lanes : index
  %first = arith.muli %group, %eight : index
  %cell = arith.addi %first, %digit : index
  %n = kernel.count_in_order %m[%cell] bits 3 : memref<16xi32, #kernel.space<local>>
  memref.store %n, %y[%i] : memref<128xi32>
  kernel.return
}"""


def test_sub_groups_count_in_the_order_of_their_work_items(cl_queue: Any) -> None:  # noqa: F811
    nvidia = emit(kernel(COUNTS), DEVICES["nvidia-h200"])
    assert nvidia.count("vote.sync.ballot.b32") == 3
    x, y = np.random.default_rng(0).integers(0, 8, 128, np.int32), np.empty(128, np.int32)
    run_text(cl_queue, COUNTS, x, y)
    places = np.arange(128)
    before = (
        (x[:, None] == x) & (places < places[:, None]) & (places // 32 == places[:, None] // 32)
    )
    np.testing.assert_array_equal(y, 7 + before.sum(1))


ADDITIONS = """
kernel.func @additions(%x : memref<32xf32>, %ids : memref<32xi32>, %y : memref<8xf32>)
    access [read, read, write] global [32, 1, 1] local [32, 1, 1] {
  %m = kernel.local_alloc : memref<32xf32, #kernel.space<local>>
  %k = kernel.local_alloc : memref<32xi32, #kernel.space<local>>
  %i = kernel.local_id 0
  %half = arith.constant 0.5 : f32
  %none = arith.constant -1 : i32
  %zero = arith.constant 0 : i32
  memref.store %half, %m[%i] : memref<32xf32, #kernel.space<local>>
  memref.store %none, %k[%i] : memref<32xi32, #kernel.space<local>>
  kernel.barrier
  %v = memref.load %x[%i] : memref<32xf32>
  %id = memref.load %ids[%i] : memref<32xi32>
  %cell = arith.index_cast %id : i32 to index
  %t = kernel.add_in_order %v, %m[%cell] marks %k turn %zero : memref<32xf32, #kernel.space<local>>, memref<32xi32, #kernel.space<local>>
  %u = kernel.add_in_order %v, %m[%cell] marks %k turn %t : memref<32xf32, #kernel.space<local>>, memref<32xi32, #kernel.space<local>>
  kernel.barrier
  %eight = arith.constant 8 : index
  %few = arith.cmpi slt, %i, %eight : index
  scf.if %few {
    %s = memref.load %m[%i] : memref<32xf32, #kernel.space<local>>
    memref.store %s, %y[%i] : memref<8xf32>
  }
  kernel.return
}"""  # noqa: E501


def test_a_sub_group_adds_in_the_order_of_its_work_items(cl_queue: Any) -> None:  # noqa: F811
    generator = np.random.default_rng(1)
    assert "match.any.sync" in emit(kernel(ADDITIONS), DEVICES["nvidia-h200"])
    for most in (8, 2, 1):
        x = generator.standard_normal(32, np.float32) * np.float32(1e5) ** generator.integers(
            0, 3, 32
        )
        ids = generator.integers(-1, most, 32, np.int32)
        y = np.empty(8, np.float32)
        run_text(cl_queue, ADDITIONS, x.astype(np.float32), ids, y)
        wanted = np.full(8, 0.5, np.float32)
        for _ in range(2):
            for value, id in zip(x.astype(np.float32), ids, strict=True):
                if id >= 0:
                    wanted[id] += value
        np.testing.assert_array_equal(y, wanted)


def test_gpus_before_sm_70_have_no_match_of_lanes() -> None:
    device = DEVICES["nvidia-h200"].with_figures(matrix_unit="none", matrix_rates={})
    text = emit(kernel(ADDITIONS), device)
    assert "match.any" not in text
    assert "same |= (uint)(other == own) << from;" in text
    defined = re.compile(r"^\w+ (add_in_order\w*|lanes_alike\w*)\(", re.MULTILINE)
    others = defined.findall(emit(kernel(ADDITIONS), DEVICES["nvidia-h200"]))
    assert not set(defined.findall(text)) & set(others), "both may be in one program"


HISTOGRAM = """
kernel.func @histogram(%x : memref<64xi32>, %y : memref<64xi32>) access [read, write]
    global [64, 1, 1] local [64, 1, 1] {
  %m = kernel.local_alloc : memref<64xi32, #kernel.space<local>>
  %i = kernel.local_id 0
  %zero = arith.constant 0 : i32
  memref.store %zero, %m[%i] : memref<64xi32, #kernel.space<local>>
  kernel.barrier
  %v = memref.load %x[%i] : memref<64xi32>
  %cell = arith.index_cast %v : i32 to index
  kernel.count %m[%cell] : memref<64xi32, #kernel.space<local>>
  kernel.barrier
  %n = memref.load %m[%i] : memref<64xi32, #kernel.space<local>>
  memref.store %n, %y[%i] : memref<64xi32>
  kernel.return
}"""


@pytest.fixture(params=["opencl", "spirv"])
def on_both_targets(
    request: pytest.FixtureRequest,
    cl_queue: Any,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kernels are built for one target after the other."""
    if request.param == "spirv":
        need_spirv(cl_queue)
        monkeypatch.setattr(opencl_tests, "signature", spirv_signature)
        build_unoptimised(monkeypatch)


@pytest.mark.usefixtures("on_both_targets")
def test_work_items_count_in_local_memory(cl_queue: Any) -> None:  # noqa: F811
    x, y = np.random.default_rng(0).integers(0, 9, 64, np.int32), np.empty(64, np.int32)
    run_text(cl_queue, HISTOGRAM, x, y)
    np.testing.assert_array_equal(y, np.bincount(x, minlength=64))


COMBINED = """
kernel.func @combined(%x : memref<128xi32>, %y : memref<8xi32>, %z : memref<8xi32>)
    access [read, read_write, read_write] global [128, 1, 1] local [64, 1, 1] {
  %m = kernel.local_alloc : memref<64xi32, #kernel.space<local>>
  %own = kernel.local_id 0
  %low = arith.constant -2147483648 : i32
  memref.store %low, %m[%own] : memref<64xi32, #kernel.space<local>>
  kernel.barrier
  %i = kernel.global_id 0
  %v = memref.load %x[%i] : memref<128xi32>
  %eight = arith.constant 8 : index
  %cell = arith.remsi %i, %eight : index
  kernel.combine_at max %v, %m[%cell] : memref<64xi32, #kernel.space<local>>
  kernel.combine_at add %v, %z[%cell] : memref<8xi32>
  kernel.barrier
  %first = arith.cmpi slt, %own, %eight : index
  scf.if %first {
    %largest = memref.load %m[%own] : memref<64xi32, #kernel.space<local>>
    kernel.combine_at max %largest, %y[%own] : memref<8xi32>
  }
  kernel.return
}"""


@pytest.mark.usefixtures("on_both_targets")
def test_work_items_combine_numbers_in_memory(cl_queue: Any) -> None:  # noqa: F811
    x = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, 128).astype(np.int32)
    y, z = np.full(8, -(1 << 30), np.int32), np.arange(8, dtype=np.int32)
    largest = np.maximum(x.reshape(16, 8).max(0), y)
    total = x.reshape(16, 8).sum(0, dtype=np.int32) + z
    run_text(cl_queue, COMBINED, x, y, z)
    np.testing.assert_array_equal(y, largest)
    np.testing.assert_array_equal(z, total)
