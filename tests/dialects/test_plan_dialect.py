"""The plan dialect refuses programs whose launches would read or write the wrong bytes."""

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.arith import Arith
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from mgn.codegen.launch_plan import BufferKind, CopyStep, LaunchStep
from mgn.codegen.plan_to_launches import launch_plan
from mgn.dialects.dense import array_of, dense_of
from mgn.dialects.kernel import Kernel
from mgn.dialects.plan import Plan, ProgramOp
from mgn.dialects.plan.buffers import ConstantOp

KERNELS = """
kernel.func @copy(%x : memref<64xf32>, %y : memref<64xf32>)
    access [read, write] global [64, 1, 1] local [1, 1, 1] { kernel.return }
kernel.func @relu(%x : memref<64xf32>, %y : memref<64xf32>)
    access [read, write] global [64, 1, 1] local [1, 1, 1]
    attributes {in_place = [array<i64: 0, 1>]} { kernel.return }
kernel.func @strict(%x : memref<64xf32>, %y : memref<64xf32>)
    access [read, write] global [64, 1, 1] local [1, 1, 1] noalias
    attributes {in_place = [array<i64: 0, 1>]} { kernel.return }
kernel.func @split(%x : memref<64xf32>, %y : memref<64xf32>, %z : memref<64xf32>)
    access [read, write, write] global [64, 1, 1] local [1, 1, 1] { kernel.return }
kernel.func @accumulate(%x : memref<64xf32>, %y : memref<64xf32>)
    access [read, read_write] global [64, 1, 1] local [1, 1, 1] { kernel.return }
kernel.func @combine(%x : memref<64xi32>, %y : memref<64xi32>)
    access [read, write] global [64, 1, 1] local [1, 1, 1]
    attributes {in_place = [array<i64: 0, 1>], starts_as = [array<i64: 0, 1>]} {
  %one = arith.constant 1 : i32
  %i = kernel.global_id 0
  kernel.combine_at add %one, %y[%i] : memref<64xi32>
  kernel.return
}
kernel.func @ones(%y : memref<64xi32>)
    access [write] global [64, 1, 1] local [1, 1, 1] { kernel.return }
"""

VIEWS = """
  %x = plan.input "x" tensor<64xf32> : memref<64xf32>
  %a = plan.view offset 0 : memref<64xf32>
  %b = plan.view offset 256 : memref<64xf32>
  %alias = plan.view offset 0 : memref<64xf32>
  %wide = plan.view offset 0 : memref<128xf32>
  %p = plan.param @p tensor<64xf32> : memref<64xf32>
  %d = plan.derived : memref<64xf32>
  %e = plan.derived : memref<64xf32>
  %n = plan.view offset 0 : memref<64xi32>
  %same = plan.view offset 0 : memref<64xi32>
"""


def parse(body: str, header: str = "plan.program @p arena 512") -> ModuleOp:
    context = Context()
    for dialect in (Builtin, Arith, Kernel, Plan):
        context.load_dialect(dialect)
    module = Parser(context, f"{KERNELS}\n{header} {{\n{VIEWS}\n{body}\n}}").parse_module()
    assert isinstance(module, ModuleOp)
    return module


def program_of(module: ModuleOp) -> ProgramOp:
    return next(op for op in module.body.block.ops if isinstance(op, ProgramOp))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("plan.launch @nobody(%x, %a)", "there is no such kernel"),
        ("plan.launch @copy(%x)", "1 arguments for 2"),
        ("plan.launch @copy(%x, %wide)", "argument 1 is a memref<128xf32>"),
        ("plan.launch @copy(%a, %x)", "argument 1 is written and must be a view"),
        ("plan.launch @copy(%a, %b)", r"reads %a \(bytes 0 to 256\), which nothing has written"),
        ('plan.output "y" %a tensor<64xf32>', 'output "y" reads %a .*, which nothing has written'),
        ("plan.launch @accumulate(%x, %a)", "reads %a .*, which nothing has written"),
        (
            "plan.launch @copy(%x, %a)\nplan.launch @copy(%a, %b)\n"
            "plan.launch @copy(%b, %alias)\nplan.launch @copy(%a, %b)",
            "launch of @copy reads %a .*, which launch of @copy has written over",
        ),
        (
            'plan.launch @copy(%x, %a)\nplan.copy %x to %alias\nplan.output "y" %a tensor<64xf32>',
            'output "y" reads %a .*, which plan.copy has written over',
        ),
        ("plan.launch @copy(%x, %a)\nplan.launch @copy(%a, %a)", "does not allow that in place"),
        ("plan.launch @copy(%x, %a)\nplan.launch @strict(%a, %a)", "does not allow that in place"),
        ("plan.launch @split(%x, %a, %a)", "writes %a .* and %a .*, which overlap"),
        (
            "%c = plan.view offset 128 : memref<64xf32>\nplan.launch @copy(%x, %c)",
            "offset 128 is not a multiple of 256",
        ),
        (
            "%c = plan.view offset 512 : memref<64xf32>\nplan.launch @copy(%x, %c)",
            "bytes 512 to 768 lie outside the arena of 512",
        ),
        ('%z = plan.input "x" tensor<64xf32> : memref<64xf32>', "'x' is there twice"),
        ('%z = plan.input "z" tensor<64xf32> : memref<32xf32>', "lies in memref<64xf32>"),
        (
            'plan.launch @copy(%x, %a)\nplan.output "y" %a tensor<32xf32>',
            "lies in memref<32xf32>",
        ),
        ("plan.copy %x to %wide", "source and target differ in type"),
        ("plan.prepare @copy(%x, %d)", "reads %x, which does not depend on parameters alone"),
        ("plan.launch @copy(%x, %a)\nplan.prepare @copy(%p, %d)", "must stand before the launch"),
        ("plan.prepare @copy(%p, %a)", "preparation by @copy writes %a, which is no derived"),
        (
            "plan.prepare @copy(%p, %d)\nplan.prepare @copy(%p, %d)",
            "%d, which has to be written once",
        ),
        ("plan.prepare @split(%p, %d, %d)", "%d, which has to be written once"),
        ("plan.prepare @accumulate(%p, %d)", "%d, which has to be written once"),
        ("plan.prepare @copy(%e, %d)", "reads %e, which nothing has prepared"),
        ("plan.prepare @nobody(%p, %d)", "there is no such kernel"),
        ("plan.launch @copy(%d, %a)", "launch of @copy reads %d, which nothing has prepared"),
        ("plan.prepare @copy(%p, %d)\nplan.launch @copy(%x, %d)", "must be a view of the arena"),
        ('plan.output "y" %d tensor<64xf32>', 'output "y" reads %d, which nothing has prepared'),
    ],
)
def test_a_program_that_would_go_wrong_is_refused(body: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse(body).verify()


@pytest.mark.parametrize(
    "body",
    [
        "plan.launch @copy(%x, %a)\nplan.launch @relu(%a, %a)\nplan.launch @copy(%a, %b)",
        "plan.launch @copy(%x, %a)\nplan.launch @relu(%a, %alias)\nplan.launch @copy(%alias, %b)",
        "plan.launch @copy(%x, %a)\nplan.launch @accumulate(%x, %a)",
        "plan.launch @copy(%x, %a)\nplan.launch @copy(%a, %b)\nplan.launch @copy(%b, %a)",
        "plan.launch @split(%x, %a, %b)",
        "plan.prepare @copy(%p, %d)\nplan.prepare @copy(%d, %e)\nplan.launch @copy(%e, %a)",
        'plan.prepare @copy(%p, %d)\nplan.output "y" %d tensor<64xf32>',
    ],
)
def test_safe_sharing_is_accepted(body: str) -> None:
    parse(body).verify()


def test_offsets_follow_the_alignment_that_a_program_asks_for() -> None:
    with pytest.raises(VerifyException, match="offset 256 is not a multiple of 512"):
        parse("", header="plan.program @p arena 512 align 512").verify()
    with pytest.raises(VerifyException, match="alignment must be a multiple of 256"):
        parse("", header="plan.program @p arena 512 align 128").verify()


def test_a_program_becomes_plain_data() -> None:
    body = """
  %w = plan.param @"layers.0.w" tensor<8x8xf32> : memref<64xf32>
  %c = plan.constant dense<[true, false]> : tensor<2xi1> to memref<2xi1>
  %u = plan.input "u" tensor<2x2xui8> : memref<4xi8>
  plan.prepare @copy(%w, %d)
  plan.launch @copy(%w, %a)
  plan.copy %a to %b
  plan.output "y" %b tensor<8x8xf32>
"""
    module = parse(body, header="plan.program @p arena 512 attributes {lower_bound = 256 : i64}")
    module.verify()
    plan = launch_plan(program_of(module))
    assert (plan.name, plan.arena, plan.lower_bound) == ("p", 512, 256)
    named = {buffer.name: buffer for buffer in plan.buffers}
    assert named["u"].element == "u8" and named["u"].shape == (2, 2)
    assert named["layers.0.w"].kind is BufferKind.PARAM
    assert named["%c"].value is not None and named["%c"].value.tolist() == [True, False]
    assert named["%b"].offset == 256 and named["%b"].shape == (64,)
    numbers = {buffer.name: number for number, buffer in enumerate(plan.buffers)}
    assert plan.steps == (
        LaunchStep("copy", (numbers["layers.0.w"], numbers["%a"])),
        CopyStep(numbers["%a"], numbers["%b"]),
    )
    derived = numbers["%d"]
    assert plan.buffers[derived].kind is BufferKind.DERIVED
    assert plan.prepare == (LaunchStep("copy", (numbers["layers.0.w"], derived)),)
    assert plan.derivations() == {derived: (0, frozenset({numbers["layers.0.w"]}))}
    assert plan.outputs[0].shape == (8, 8) and plan.outputs[0].buffer == numbers["%b"]


@pytest.mark.parametrize("pairs", ["[0, 1]", "[array<i64: 1, 0>]", "[array<i64: 0, 7>]", "unit"])
def test_in_place_pairs_name_a_read_and_a_written_argument(pairs: str) -> None:
    module = parse("plan.launch @copy(%x, %a)")
    bad = KERNELS.replace("[array<i64: 0, 1>]", pairs)
    context = Context()
    for dialect in (Builtin, Arith, Kernel, Plan):
        context.load_dialect(dialect)
    text = str(program_of(module))
    broken = Parser(context, f"{bad}\n{text}").parse_module()
    with pytest.raises(VerifyException, match="in_place lists pairs of argument positions"):
        broken.verify()


@pytest.mark.parametrize(
    "value",
    [
        np.full(3, -np.inf, np.float32),
        np.array([1.5, np.inf, np.nan, -0.0], np.float32),
        np.array([[np.nan, 65504.0]], np.float16),
        np.array([2**63 - 1, -(2**63)], np.int64),
        np.array([True, False]),
    ],
)
def test_a_constant_reads_back_bit_for_bit(value: np.ndarray) -> None:
    program = ProgramOp("p", 0)
    program.body.block.add_op(ConstantOp(dense_of(value)))
    program.verify()
    context = Context()
    for dialect in (Builtin, Kernel, Plan):
        context.load_dialect(dialect)
    again = Parser(context, str(program)).parse_module().body.block.first_op
    assert isinstance(again, ProgramOp)
    again.verify()
    (constant,) = again.body.block.ops
    assert isinstance(constant, ConstantOp)
    found = array_of(constant.value)
    assert found.dtype == value.dtype and found.tobytes() == value.tobytes()
    assert str(again) == str(program)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ("plan.launch @copy(%x, %a) plan.launch @copy(%a, %b)", "beside launch of @copy"),
        ("plan.launch @copy(%x, %a) plan.launch @copy(%x, %alias)", "beside launch of @copy"),
        (
            "plan.launch @copy(%x, %a) plan.launch @copy(%a, %b) {everywhere}",
            "beside launch of @copy",
        ),
        ("plan.launch @relu(%a, %a) {everywhere}", "which nothing has written"),
        (
            "plan.launch @copy(%x, %a) plan.barrier plan.launch @relu(%a, %a) {everywhere}",
            "is done everywhere, and writes",
        ),
        (
            "plan.launch @ones(%n) plan.barrier plan.launch @combine(%n, %same) {everywhere}",
            "is done everywhere, and combines %same .* with what it writes",
        ),
        ("plan.launch @copy(%x, %a) plan.barrier", "a barrier stands between launches"),
        ("plan.barrier plan.launch @copy(%x, %a)", "a barrier stands between launches"),
        ("plan.prepare @copy(%p, %d)", "plan.prepare does not belong here"),
    ],
)
def test_stages_that_nothing_orders_touch_other_bytes(stages: str, message: str) -> None:
    with pytest.raises(VerifyException, match=message):
        parse(f"plan.resident @r items 64 {{ {stages} }}").verify()


def test_a_stage_may_read_what_its_group_has_written_for_itself() -> None:
    stages = "plan.launch @copy(%x, %a) {everywhere} plan.launch @copy(%a, %b)"
    parse(f"plan.resident @r items 64 {{ {stages} }}").verify()


def test_a_resident_launch_is_given_each_place_once() -> None:
    stages = (
        "plan.launch @copy(%x, %a) plan.barrier plan.launch @copy(%a, %b) "
        "plan.barrier plan.launch @copy(%x, %alias)"
    )
    module = parse(f"plan.resident @r items 64 {{ {stages} }}")
    module.verify()
    (step,) = launch_plan(program_of(module)).steps
    assert isinstance(step, LaunchStep) and step.kernel == "r"
    names = [launch_plan(program_of(module)).buffers[n].name for n in step.arguments]
    assert names == ["x", "%a", "%b"]
