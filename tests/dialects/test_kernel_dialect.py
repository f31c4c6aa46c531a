"""The kernel dialect: constructors, text, verifiers, and what DCE and CSE may do with it."""

import pytest
from xdsl.context import Context
from xdsl.dialects import arith, builtin, math, memref, scf, vector
from xdsl.dialects.builtin import MemRefType, ModuleOp, VectorType, f32, i1, i32
from xdsl.parser import Parser
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import dce
from xdsl.utils.exceptions import VerifyException

from mgn.dialects import kernel
from tests.conftest import ROOT

FILECHECK = ROOT / "filecheck" / "kernel"
HEAD = "access [read, read_write] global [64, 1, 1] local [32, 1, 1]"


def context() -> Context:
    loaded = Context()
    for dialect in (
        *(builtin.Builtin, arith.Arith, math.Math, scf.Scf, memref.MemRef, vector.Vector),
        kernel.Kernel,
    ):
        loaded.load_dialect(dialect)
    return loaded


def parse(text: str) -> ModuleOp:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def body(text: str) -> str:
    return (
        f"kernel.func @f(%x : memref<64xf32>, %y : memref<64xf32>) {HEAD} {{\n"
        f"%i = kernel.global_id 0\n{text}\nkernel.return\n}}"
    )


@pytest.mark.parametrize("name", ["operations.mlir", "vectors.mlir"])
def test_text_survives_a_round_trip(name: str) -> None:
    printed = str(parse((FILECHECK / name).read_text()))
    assert str(parse(printed)) == printed


def test_every_operation_appears_in_the_round_trip() -> None:
    text = "".join((FILECHECK / name).read_text() for name in ("operations.mlir", "vectors.mlir"))
    assert [op.name for op in kernel.Kernel.operations if f"{op.name} " not in f"{text} "
            and f"{op.name}\n" not in text] == []  # fmt: skip


def test_a_kernel_built_in_python_prints_as_it_would_be_written() -> None:
    func = kernel.FuncOp(
        "copy",
        [(MemRefType(f32, [64]), "read"), (MemRefType(f32, [64]), "write")],
        [64],
        [16],
        noalias=True,
        names=["x", "y"],
    )
    x, y = func.arguments
    place = kernel.GlobalIdOp(0)
    load = memref.LoadOp.get(x, [place])
    func.body.block.add_ops([place, load, memref.StoreOp.get(load, y, [place]), kernel.ReturnOp()])
    func.verify()
    assert func.accesses == (kernel.Access.READ, kernel.Access.WRITE)
    assert (func.global_sizes, func.local_sizes) == ((64, 1, 1), (16, 1, 1))
    assert str(func).splitlines()[0] == (
        "kernel.func @copy(%x: memref<64xf32>, %y: memref<64xf32>) access [read, write]"
        " global [64, 1, 1] local [16, 1, 1] noalias {"
    )


def test_helpers_choose_scalar_or_vector_operations() -> None:
    scalar = arith.ConstantOp.from_int_and_width(1, 32)
    lanes = vector.BroadcastOp(scalar, VectorType(i32, [4]))
    assert isinstance(kernel.compare_integers("slt", scalar, scalar), arith.CmpiOp)
    mask = kernel.compare_integers("slt", lanes, lanes)
    assert mask.result.type == VectorType(i1, [4])
    assert isinstance(kernel.select(mask, lanes, lanes), kernel.SelectOp)
    assert kernel.convert("sitofp", lanes, f32).results[0].type == VectorType(f32, [4])
    assert isinstance(kernel.convert("sitofp", scalar, f32), arith.SIToFPOp)
    assert kernel.reduction("add", lanes).dest.type == i32


ERRORS: list[tuple[str, str]] = [
    ("%g = kernel.group_id 3", "dimension must be 0, 1 or 2, not 3"),
    ("%m = kernel.local_alloc : memref<4xf32>", "makes #kernel.space<local> memory"),
    (
        "%m = memref.alloca() : memref<4xf32>",
        "memref.alloca makes #kernel.space<private> memory",
    ),
    (
        "%v = vector.load %x[%i] : memref<64xf32>, vector<3xf32>",
        "a vector has one of 2, 4, 8, 16 lanes",
    ),
    (
        "%v = memref.load %y[%i] : memref<64xf32>\nmemref.store %v, %x[%i] : memref<64xf32>",
        "argument 0 is stored to, but its access is read",
    ),
    (
        "kernel.prefetch %x[%i] level 3 : memref<64xf32>",
        "kernel.prefetch knows the levels 1 and 2",
    ),
    (
        "%t = arith.constant true\nscf.if %t {\n  kernel.await_stages\n}",
        "kernel.await_stages belongs in the kernel's outermost block",
    ),
    (
        "%e = kernel.async_copy %x[%i], %y[%i] count 4 : memref<64xf32>, memref<64xf32>",
        "goes from global to local memory",
    ),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n"
        "%d = kernel.mma m16n8k16_bf16 %a, %a, %a : vector<4xf32>, vector<4xf32>, vector<4xf32>",
        "m16n8k16_bf16 takes vector<4xi32> as a",
    ),
    (
        "%r = kernel.load_matrix %x[%i] : memref<64xf32> -> vector<4xf32>",
        "kernel.load_matrix reads local memory",
    ),
    (
        "%m = kernel.local_alloc : memref<64xf32, #kernel.space<local>>\n%r = kernel.load_matrix"
        " transposed %m[%i] : memref<64xf32, #kernel.space<local>> -> vector<4xf32>",
        "kernel.load_matrix takes no transposed f32",
    ),
    (
        "kernel.copy_chunk %x[%i], %y[%i] count 4 : memref<64xf32>, memref<64xf32>",
        "kernel.copy_chunk goes from global to local memory",
    ),
    (
        "%m = kernel.local_alloc : memref<64xf32, #kernel.space<local>>\nkernel.copy_chunk"
        " %x[%i], %m[%i] count 8 : memref<64xf32>, memref<64xf32, #kernel.space<local>>",
        "kernel.copy_chunk moves 4, 8 or 16 bytes, not 32",
    ),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n%d = kernel.group_mma %x[%i, %i] steps 1"
        " parts [0, 0] adds %a : memref<64xf32>, vector<4xf32> -> vector<4xf32>",
        "kernel.group_mma reads local memory",
    ),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n"
        "%m = kernel.local_alloc : memref<64xi32, #kernel.space<local>>\n"
        "%d = kernel.group_mma %m[%i, %i] steps 1 parts [0, 0] adds %a"
        " : memref<64xi32, #kernel.space<local>>, vector<4xf32> -> vector<4xf32>",
        "kernel.group_mma takes no i32",
    ),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n"
        "%m = kernel.local_alloc : memref<64xf32, #kernel.space<local>>\n"
        "%d = kernel.group_mma %m[%i, %i] steps 1 parts [0, 4096] adds %a"
        " : memref<64xf32, #kernel.space<local>>, vector<4xf32> -> vector<4xf32>",
        "kernel.group_mma takes no transposed f32",
    ),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n"
        "%f = arith.constant dense<1> : vector<4xi32>\n"
        "%m = kernel.local_alloc : memref<64xf32, #kernel.space<local>>\n"
        "%d = kernel.group_mma_held %f times %m[%i] part 0 adds %a : vector<4xi32>"
        " times memref<64xf32, #kernel.space<local>> adds vector<4xf32> -> vector<4xf32>",
        "kernel.group_mma_held takes no f32",
    ),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n"
        "%m = kernel.local_alloc : memref<64xf16, #kernel.space<local>>\n"
        "%d = kernel.group_mma_held %a times %m[%i] part 0 adds %a : vector<4xf32>"
        " times memref<64xf16, #kernel.space<local>> adds vector<4xf32> -> vector<4xf32>",
        "kernel.group_mma_held takes fragments of vector<4xi32>, one at least",
    ),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n"
        "%d = kernel.wait_products 1 of %a : vector<4xf32>",
        "kernel.wait_products gives sums when no product is under way",
    ),
    ("kernel.wait_products -1", "kernel.wait_products takes a number of products"),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n"
        "%d = kernel.pack %a : vector<4xf32> -> vector<2xi32>",
        "kernel.pack holds pairs of bf16 or f16 as i32",
    ),
    ("kernel.wait_copies -1", "kernel.wait_copies takes a number of groups"),
    (
        "%a = arith.constant 1 : i32\n%r = kernel.round_tf32 %a : i32",
        "kernel.round_tf32 rounds f32, not i32",
    ),
    (
        "%a = arith.constant 1 : i8\n%s = kernel.sub_group_reduce add %a : i8",
        "exchanges f32, f64, i32 and i64, not i8",
    ),
    (
        "%m = kernel.local_alloc : memref<8xf32, #kernel.space<local>>\n"
        "%z = arith.constant 0 : index\n"
        "%n = kernel.count_in_order %m[%z] bits 3 : memref<8xf32, #kernel.space<local>>",
        "counts in local i32, not memref<8xf32",
    ),
    (
        "%m = kernel.local_alloc : memref<8xi8, #kernel.space<local>>\n"
        "%z = arith.constant 0 : index\nkernel.count %m[%z] : memref<8xi8, #kernel.space<local>>",
        "counts in local i32, not memref<8xi8",
    ),
    (
        "%m = kernel.local_alloc : memref<8xi32, #kernel.space<local>>\n"
        "%z = arith.constant 0 : index\n"
        "%n = kernel.count_in_order %m[%z] bits 17 : memref<8xi32, #kernel.space<local>>",
        "tells 1 to 16 bits apart",
    ),
    (
        "%m = kernel.local_alloc : memref<8xi32, #kernel.space<local>>\n"
        "%v = arith.constant 1.0 : f32\n%t = arith.constant 0 : i32\n"
        "%n = kernel.add_in_order %v, %m[%i] marks %m turn %t : "
        "memref<8xi32, #kernel.space<local>>, memref<8xi32, #kernel.space<local>>",
        "takes local f32, not memref<8xi32",
    ),
    (
        "%a = arith.constant dense<1.0> : vector<4xf32>\n%m = kernel.cmpf slt, %a, %a"
        " : vector<4xf32>",
        "no predicate slt",
    ),
    (
        "%z = arith.constant 0 : index\n%c = arith.cmpi eq, %i, %z : index\n"
        "scf.if %c {\nkernel.barrier\n}",
        "kernel.barrier inside scf.if: every work-item of the group must reach it",
    ),
]


@pytest.mark.parametrize(("text", "message"), ERRORS, ids=[message for _, message in ERRORS])
def test_a_wrong_kernel_is_an_error_that_says_why(text: str, message: str) -> None:
    with pytest.raises(VerifyException) as error:
        parse(body(text))
    assert message in str(error.value)


def test_dead_code_elimination_keeps_barriers_and_stores_and_removes_unused_places() -> None:
    module = parse(body("%l = kernel.local_id 0\nkernel.barrier\n%z = kernel.sub_group_size"))
    dce(module)
    names = [operation.name for operation in module.walk()]
    assert names == ["builtin.module", "kernel.func", "kernel.barrier", "kernel.return"]


LOCAL = "memref<64xf32, #kernel.space<local>>"
BRANCH = "%t = arith.cmpf oeq, %v, %v : f32\nscf.if %t {\nkernel.barrier\n}"
READ = "%v = memref.load %x[%n] : memref<64xf32>\n" + BRANCH


@pytest.mark.parametrize(
    ("text", "alike"),
    [
        ("%n = kernel.group_id 0\n" + READ, True),
        ("%l = kernel.local_id 0\n%n = arith.addi %l, %l : index\n" + READ, False),
        ("%n = kernel.group_id 0\n" + READ.replace("%x", "%y"), False),
        (
            f"%m = kernel.local_alloc : {LOCAL}\n%n = kernel.group_id 0\n"
            f"%v = memref.load %m[%n] : {LOCAL}\n{BRANCH}",
            False,
        ),
        (
            "%a = arith.constant 0 : index\n%b = arith.constant 1 : index\n"
            "scf.for %n = %a to %b step %b {\n" + READ + "\n}",
            False,
        ),
    ],
)
def test_a_group_may_wait_in_a_branch_that_all_of_it_surely_takes(text: str, alike: bool) -> None:
    whole = body(text).replace(HEAD, HEAD + " noalias" * ("noalias" not in HEAD))
    if alike:
        parse(whole)
        whole = whole.replace(" noalias", "")
    with pytest.raises(VerifyException, match="every work-item of the group must reach it"):
        parse(whole)


def test_loads_are_not_shared_across_a_barrier() -> None:
    load = "memref.load %x[%i] : memref<64xf32>"
    store = "memref.store %s, %y[%i] : memref<64xf32>"
    for between, loads in (("", 1), ("kernel.barrier", 2)):
        module = parse(body(
            f"%a = {load}\n{between}\n%b = {load}\n%s = arith.addf %a, %b : f32\n{store}"
        ))  # fmt: skip
        CommonSubexpressionElimination().apply(context(), module)
        found = [op for op in module.walk() if isinstance(op, memref.LoadOp)]
        assert len(found) == loads


def test_a_device_survives_as_an_attribute() -> None:
    for device in kernel.DEVICES.values():
        assert kernel.Device.from_attribute(device.to_attribute()) == device
        printed = str(ModuleOp([], {"mgn.device": device.to_attribute()}))
        assert kernel.Device.of(Parser(context(), printed).parse_module()) == device
