"""The text of a resident launch: a table of stages, each kernel's body once, and barriers."""

import re
from dataclasses import replace

import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin
from xdsl.dialects.memref import MemRef
from xdsl.dialects.vector import Vector
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
    """The resident launch of two kernels, of groups of so many work-items."""
    return signature_of(MODULE.replace("ITEMS", str(items)), device)


def text_of(module: str, device: Device) -> str:
    """The text of the resident launch of a module."""
    return signature_of(module, device).source


def signature_of(text: str, device: Device) -> KernelSignature:
    context = Context()
    for dialect in (Builtin, Arith, MemRef, Vector, Kernel, Plan):
        context.load_dialect(dialect)
    module = Parser(context, text).parse_module()
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


MULTIPLIED = """
kernel.func @multiply(%x : memref<512xf32>, %y : memref<512xf32>)
    access [read, write] global [128, 1, 1] local [128, 1, 1] {
  %m = kernel.local_alloc : memref<8192xf16, #kernel.space<local>>
  %zero = arith.constant 0 : index
  %c = vector.load %x[%zero] : memref<512xf32>, vector<4xf32>
  %d = kernel.group_mma %m[%zero, %zero] steps 4 parts [0, 0] adds %c
      : memref<8192xf16, #kernel.space<local>>, vector<4xf32> -> vector<4xf32>
  %e = kernel.wait_products 0 of %d : vector<4xf32>
  vector.store %e, %y[%zero] : memref<512xf32>, vector<4xf32>
  kernel.return
}
"""


def test_bodies_whose_groups_multiply_are_no_functions_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resident, "MOST_INLINED", 16)
    module = MODULE.replace("ITEMS", "256").replace("@copy(%x, %b)", "@multiply(%x, %b)")
    source = text_of(MULTIPLIED + module, DEVICES["nvidia-h200"])
    found = re.findall(r"(__attribute__\(\(noinline\)\) )?void stage_\d\( // (\w+)", source)
    assert {name: bool(apart) for apart, name in found} == {
        "copy": True,
        "multiply": False,
        "turn": True,
    }


def test_smaller_work_groups_share_a_resident_one_on_nvidia() -> None:
    found = signature_for(DEVICES["nvidia-h200"], 256)
    assert "block = lane / 64" in found.source and "unit += stride * 4" in found.source
    assert 'asm volatile("bar.sync %0, 64;" :: "r"(1 + block)' in found.source
    assert found.global_size == (16 * 256, 1, 1), "each group has a work-group before a second one"
    assert found.local_memory == 4 * 256


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


WEIGHED = """
kernel.func @weigh(%x : memref<512xf32>, %w : memref<512xf32>, %y : memref<512xf32>)
    access [read, read, write] global [512, 1, 1] local [ITEMS, 1, 1] {
  %i = kernel.global_id 0
  %a = memref.load %w[%i] : memref<512xf32>
  kernel.await_stages
  %b = memref.load %x[%i] : memref<512xf32>
  %c = arith.mulf %a, %b : f32
  memref.store %c, %y[%i] : memref<512xf32>
  kernel.return
}
plan.program @p arena 8192 {
  %x = plan.input "x" tensor<512xf32> : memref<512xf32>
  %w = plan.param @w tensor<512xf32> : memref<512xf32>
  %a = plan.view offset 0 : memref<512xf32>
  %b = plan.view offset 2048 : memref<512xf32>
  plan.resident @r items 256 {
    plan.launch @weigh(%x, %w, %a)
    plan.barrier
    plan.launch @weigh(%a, WEIGHTS, %b)
  }
  plan.output "b" %b tensor<512xf32>
}
"""


def weighed(weights: str, items: int, device: Device) -> str:
    """The text of two dependent stages, of which the second one reads such weights."""
    return text_of(WEIGHED.replace("WEIGHTS", weights).replace("ITEMS", str(items)), device)


@pytest.mark.parametrize("items", [64, 256])
def test_weights_are_read_while_a_stage_waits(items: int) -> None:
    source = weighed("%w", items, DEVICES["nvidia-h200"])
    assert re.findall(r"case (\d): kind.* late = 1;", source) == ["0", "1"]
    body = source[source.index("void stage_0(") : source.index("__kernel")]
    polls = [match.start() for match in re.finditer(r"poll\(arrivals, all\)", body)]
    assert len(polls) == 2, "a group waits once, whether it has something to do or not"
    assert body.index("= w[i]") < polls[0] < body.index("= x[i]") < polls[1]
    assert "if (!late) await_all(arrivals, met * groups);" in source


def test_a_stage_waits_first_where_the_launch_writes_what_it_reads_early() -> None:
    source = weighed("%a", 256, DEVICES["nvidia-h200"])
    assert re.findall(r"case (\d): kind.* late = 1;", source) == ["0"]


def test_a_part_of_a_warp_does_not_wait_by_itself() -> None:
    assert "late = 1" not in weighed("%w", 16, DEVICES["nvidia-h200"])


THIRD_STAGE = """    plan.launch @weigh(%a, WEIGHTS, %c)
  }
  plan.output"""


@pytest.mark.parametrize(("own", "meets"), [(32, False), (96, True)])
def test_items_without_a_work_group_meet_those_that_have_waited(own: int, meets: bool) -> None:
    """Of 256 items, 64 have no work-group of 96. They may have one in the next stage of the span,
    which does not wait for all groups.
    """
    module = WEIGHED.replace("512", str(8 * own)).replace("2048", "4096").replace("8192", "16384")
    module = module.replace("  }\n  plan.output", THIRD_STAGE)
    third = f"  %c = plan.view offset 8192 : memref<{8 * own}xf32>\n"
    module = module.replace("  plan.resident", third + "  plan.resident")
    module = module.replace("WEIGHTS", "%w").replace("ITEMS", str(own))
    source = text_of(module, DEVICES["nvidia-h200"])
    assert source.count("late = 1;") == 3
    assert ("} else {\n            barrier(" in source) is meets


@pytest.mark.parametrize(("own", "meets"), [(256, False), (64, True)])
def test_the_counter_is_set_back_when_no_part_of_a_group_waits(own: int, meets: bool) -> None:
    source = weighed("%w", own, DEVICES["nvidia-h200"])
    end = source[source.index("++met;") :]
    assert ("barrier(" in end[: end.index("atomic_inc")]) is meets


def test_a_cpu_has_nothing_to_wait_for() -> None:
    source = weighed("%w", 256, replace(DEVICES["cpu"], max_work_group_size=256))
    assert "poll" not in source and "late = 1" not in source
