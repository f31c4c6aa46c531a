"""The text of a resident launch: a table of stages, each kernel's body once, and barriers."""

import re

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.memref import MemRef
from xdsl.parser import Parser

from mgn.codegen.opencl import resident
from mgn.codegen.opencl.resident import resident_signature
from mgn.codegen.opencl.writer import CodegenError
from mgn.codegen.signature import KernelSignature
from mgn.dialects.kernel import DEVICES, Device, FuncOp, Kernel
from mgn.dialects.plan import Plan, ProgramOp

MODULE = """
kernel.func @copy(%x : memref<512xf32>, %y : memref<512xf32>)
    access [read, write] global [512, 1, 1] local [64, 1, 1] {
  %i = kernel.global_id 0
  %v = memref.load %x[%i] : memref<512xf32>
  memref.store %v, %y[%i] : memref<512xf32>
  kernel.return
}
kernel.func @turn(%x : memref<512xf32>, %y : memref<512xf32>)
    access [read, write] global [512, 1, 1] local [64, 1, 1] {
  %m = kernel.local_alloc : memref<64xf32, #kernel.space<local>>
  %c = arith.constant 63 : index
  %l = kernel.local_id 0
  %r = arith.subi %c, %l : index
  %i = kernel.global_id 0
  %v = memref.load %x[%i] : memref<512xf32>
  memref.store %v, %m[%r] : memref<64xf32, #kernel.space<local>>
  kernel.barrier
  %w = memref.load %m[%l] : memref<64xf32, #kernel.space<local>>
  memref.store %w, %y[%i] : memref<512xf32>
  kernel.return
}
plan.program @p arena 8192 {
  %x = plan.input "x" tensor<512xf32> : memref<512xf32>
  %a = plan.view offset 0 : memref<512xf32>
  %b = plan.view offset 2048 : memref<512xf32>
  %c = plan.view offset 4096 : memref<512xf32>
  plan.resident @r items ITEMS {
    plan.launch @copy(%x, %a)
    plan.launch @copy(%x, %b)
    plan.barrier
    plan.launch @turn(%a, %c)
  }
  plan.output "b" %b tensor<512xf32>
  plan.output "c" %c tensor<512xf32>
}
"""


def signature_for(device: Device, items: int) -> KernelSignature:
    context = Context()
    for dialect in (Builtin, Arith, MemRef, Kernel, Plan):
        context.load_dialect(dialect)
    module = Parser(context, MODULE.replace("ITEMS", str(items))).parse_module()
    module.verify()
    operations = list(module.body.block.ops)
    functions = {op.sym_name.data: op for op in operations if isinstance(op, FuncOp)}
    program = next(op for op in operations if isinstance(op, ProgramOp))
    (launch,) = program.residents
    return resident_signature(launch, functions, device)


def test_each_kernel_has_its_body_once_and_each_stage_a_line() -> None:
    found = signature_for(DEVICES["nvidia-h200"], 256)
    assert found.source.count("// copy") == found.source.count("// turn") == 1
    table = re.findall(r"case (\d): kind = (\d); units = 8;( meets = 1;)?(.*) break;", found.source)
    assert [(kind, bool(meets)) for _, kind, meets, _ in table] == [
        ("0", False),
        ("0", True),
        ("1", False),
    ]
    assert [places.strip() for *_, places in table] == [
        "p0 = b0; p1 = b1;",
        "p0 = b0; p1 = b2;",
        "p0 = b1; p1 = b3;",
    ]
    assert found.is_resident and found.accesses == ("read", "write", "write", "write")


def test_large_bodies_are_functions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small ones may be put into the loop: a call takes time, and a compiler knows less there."""
    assert "noinline" not in signature_for(DEVICES["nvidia-h200"], 256).source
    monkeypatch.setattr(resident, "MOST_INLINED", 16)
    large = signature_for(DEVICES["nvidia-h200"], 256).source
    assert large.count("__attribute__((noinline)) void stage_") == 2


def test_smaller_work_groups_share_a_resident_one_on_nvidia() -> None:
    found = signature_for(DEVICES["nvidia-h200"], 256)
    assert "block = lane / 64" in found.source and "unit += stride * 4" in found.source
    assert 'asm volatile("bar.sync %0, 64;" :: "r"(1 + block)' in found.source
    assert found.global_size == (4 * 256, 1, 1) and found.local_memory == 4 * 256


def test_all_groups_of_a_gpu_meet_and_the_last_one_sets_the_counter_back() -> None:
    source = signature_for(DEVICES["nvidia-h200"], 64).source
    assert "await_all(arrivals, met * groups);" in source and "trap;" in source
    assert source.index("arrive(arrivals);") > source.index("switch (kind)")
    assert "atomic_inc(arrivals) == (met + 1) * groups - 1" in source
    assert "restrict" not in source


def test_the_one_group_of_a_cpu_waits_for_nobody() -> None:
    source = signature_for(DEVICES["cpu"], 64).source
    assert "await_all" not in source and "atomic_inc" not in source


def test_a_part_of_a_group_cannot_wait_elsewhere() -> None:
    with pytest.raises(CodegenError, match="'turn' cannot be a stage of groups of 256"):
        signature_for(DEVICES["cpu"], 256)
    with pytest.raises(CodegenError, match="no barrier of the whole device"):
        signature_for(DEVICES["nvidia-h200"].with_figures(vendor="amd"), 64)
