"""PTX completed by the runtime: directives followed, comments made instructions, and errors."""

import pytest
from xdsl.ir import SSAValue

from mgn.codegen.opencl import wgmma
from mgn.codegen.opencl.opencl import signature
from mgn.dialects.kernel import DEVICES
from mgn.runtime.errors import BuildError
from mgn.runtime.launching.ptx import completed, needs_completion
from tests.support.lower_fixture import fused_kernel, lowered

SOURCE = """#ifndef MGN_PTX
#error this program is completed in its PTX
#endif
// ptx target sm_90a
// ptx shared buffer 32768 147456
"""

PTX = """.version 8.8
.target sm_90, texmode_independent
.shared .align 1024 .b8 f_$_buffer[32768];
\t// begin inline asm
\t// @ptx { // of a product
// @ptx wgmma.fence.sync.aligned;
\t// end inline asm
"""


def test_the_target_and_the_size_of_local_memory_are_replaced() -> None:
    text = completed(SOURCE, PTX)
    assert ".target sm_90a, texmode_independent" in text
    assert ".b8 f_$_buffer[147456];" in text and "32768" not in text


def test_comments_become_instructions() -> None:
    lines = completed(SOURCE, PTX).splitlines()
    assert lines[-4:] == [
        "\t// begin inline asm",
        "{ // of a product",
        "wgmma.fence.sync.aligned;",
        "\t// end inline asm",
    ]


def test_a_product_has_an_instruction_for_each_step() -> None:
    lines = wgmma.product("bf16", 8, 2, (0, 8192))
    product = (
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3}, da, db, p, 1, 1, 0, 1;"
    )
    assert lines.count(product) == 2
    order = [lines.index(f"wgmma.{name}.sync.aligned;") for name in ("fence", "commit_group")]
    assert order[0] < lines.index(product) < order[1]
    # The left tile moves on by 32 bytes of its lines, the right one by 16 lines of 128 bytes.
    assert "add.s64 da, da, 2;" in lines and "add.s64 db, db, 128;" in lines
    # Distances of groups of 8 lines, of parts, and the exchange of 128 bytes.
    assert "and.b32 t, %4, 0x3ffff;" in lines and "and.b32 t, %5, 0x3ffff;" in lines
    assert f"or.b64 da, da, {1 << 62 | 64 << 32 | 1 << 16:#x};" in lines
    assert f"or.b64 db, db, {1 << 62 | 64 << 32 | 512 << 16:#x};" in lines


def test_numbers_of_32_bits_are_never_transposed() -> None:
    product = (
        "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, da, db, p, 1, 1;"
    )
    assert wgmma.product("tf32", 8, 2, (0, 0)).count(product) == 2


def test_local_memory_that_the_ptx_does_not_declare_is_an_error() -> None:
    with pytest.raises(BuildError, match="declares no buffer of 32768 bytes"):
        completed(SOURCE, PTX.replace("f_$_buffer", "other"))


def test_only_kernels_that_need_it_are_completed_and_say_so_to_a_plain_compiler() -> None:
    def product(e: object, x: SSAValue, y: SSAValue) -> SSAValue:
        return e.matmul(x, y)  # type: ignore[attr-defined]

    unit = DEVICES["nvidia-h200"]
    kernel = fused_kernel("contraction", [("bf16", (2048, 2048))] * 2, product)
    source = signature(lowered(kernel, unit), unit).source
    assert needs_completion(source) and "#error" in source
    assert "// ptx target sm_90a" in source and "// @ptx wgmma.mma_async" in source
    plain = fused_kernel("contraction", [("f32", (2048, 2048))] * 2, product)
    assert not needs_completion(signature(lowered(plain, unit), unit).source)
