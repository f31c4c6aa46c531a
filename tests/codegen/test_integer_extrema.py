"""Maxima and minima of integers that a loop's counter gives, on the device against NumPy.

NVIDIA's assembler has some wrong where they stand as such (`codegen/opencl/integer_extrema.py`).
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from mgn.codegen.opencl.opencl import emit
from mgn.dialects.kernel import DEVICES
from tests.support.joint_programs import opencl_signatures
from tests.support.opencl_fixture import (
    cl_queue,  # noqa: F401
    device_description,
    kernel,
    run_kernel,
)

COUNT = 42
NVIDIA = DEVICES["nvidia-h200"]

MADE: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "quotient": ("%d = arith.divsi %i, %three : index", lambda i: i // 3),
    "remainder": ("%d = arith.remsi %i, %three : index", lambda i: i % 3),
    "multiple": ("%d = arith.muli %i, %three : index", lambda i: 3 * i),
    "counter": ("%d = arith.addi %i, %zero : index", lambda i: i),
}
"""What a loop makes of its counter."""

CHOSEN: dict[str, tuple[str, Callable[[np.ndarray, int], np.ndarray]]] = {
    "max": ("%r = arith.maxsi %s, %b : i32", np.maximum),
    "min": ("%r = arith.minsi %s, %b : i32", np.minimum),
    "select max": (
        "%t = arith.cmpi sgt, %s, %b : i32\n%r = arith.select %t, %s, %b : i32",
        np.maximum,
    ),
    "select min": (
        "%t = arith.cmpi sge, %s, %b : i32\n%r = arith.select %t, %b, %s : i32",
        np.minimum,
    ),
    "within": (
        "%m = arith.minsi %s, %b : i32\n%r = arith.maxsi %m, %none : i32",
        lambda s, b: np.maximum(np.minimum(s, b), 0),
    ),
    "at the end": (
        "%m = arith.minsi %s, %b : i32\n%n = arith.maxsi %m, %none : i32\n"
        "%t = arith.cmpi eq, %n, %b : i32\n%r = arith.select %t, %added, %none : i32",
        lambda s, b: np.where(np.maximum(np.minimum(s, b), 0) == b, 1000, 0),
    ),
}


def text_of(made: str, added: int, chosen: str, bound: int) -> str:
    sum_of = "1000" if chosen == "at the end" else str(added)
    return f"""kernel.func @k(%y : memref<{COUNT}xi32>) access [write]
    global [1, 1, 1] local [1, 1, 1] {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %three = arith.constant 3 : index
  %count = arith.constant {COUNT} : index
  %none = arith.constant 0 : i32
  %c = arith.constant {added} : i32
  %added = arith.constant {sum_of} : i32
  %b = arith.constant {bound} : i32
  scf.for %i = %zero to %count step %one {{
    {MADE[made][0]}
    %e = arith.index_cast %d : index to i32
    %s = arith.addi %e, %c : i32
    {CHOSEN[chosen][0]}
    memref.store %r, %y[%i] : memref<{COUNT}xi32>
  }}
  kernel.return
}}"""


def test_extrema_of_a_counter_are_right(cl_queue: Any) -> None:  # noqa: F811
    draw = random.Random(0)
    cases = [
        (made, added, chosen, draw.choice([-5, 0, 2, 5]))
        for made in MADE
        for chosen in CHOSEN
        for added in (-7, draw.randint(-20, -1), draw.randint(1, 9))
    ]
    kernels = [kernel(text_of(*case)) for case in cases]
    for number, func in enumerate(kernels):
        func.sym_name = StringAttr(f"k_{number}")
    found = opencl_signatures(kernels, [device_description(cl_queue)] * len(kernels))
    counter = np.arange(COUNT)
    for (made, added, chosen, bound), tested in zip(cases, found, strict=True):
        result = np.full(COUNT, -99, np.int32)
        run_kernel(cl_queue, tested, [result])
        wanted = CHOSEN[chosen][1](MADE[made][1](counter) + added, bound)
        np.testing.assert_array_equal(result, wanted, f"{made} {added:+d}, {chosen} {bound}")


def test_no_addition_can_be_folded_into_an_extremum_for_nvidia() -> None:
    for chosen in CHOSEN:
        text = emit(kernel(text_of("quotient", -7, chosen, 2)), NVIDIA)
        assert "min(" not in text and "max(" not in text and "? s" not in text, text
        assert "_in_bits(" in text, text


SUMS = {
    "chosen by a branch": """%low = arith.cmpi slt, %i, %one : index
    %e = scf.if %low -> (i32) { scf.yield %five : i32 } else { scf.yield %two : i32 }
    %s = arith.addi %e, %c : i32
    %r = arith.minsi %s, %x : i32""",
    "from an item's own memory": """
    memref.store %c, %own[%i] : memref<4xi32, #kernel.space<private>>
    %e = memref.load %own[%one] : memref<4xi32, #kernel.space<private>>
    %s = arith.addi %e, %five : i32
    %r = arith.minsi %s, %x : i32""",
    "in lanes": """%d = arith.index_cast %i : index to i32
    %s = arith.addi %d, %c : i32
    %v = kernel.from_elements %s, %x, %five, %two : vector<4xi32>
    %r = vector.reduction <minsi>, %v : vector<4xi32> into i32""",
    "of a sub-group": """%d = arith.index_cast %i : index to i32
    %s = arith.addi %d, %c : i32
    %r = kernel.sub_group_reduce min %s : i32""",
}


def emitted(lines: str) -> str:
    """The text for NVIDIA of a kernel that reads `%x0` and writes `%y`, of four numbers each."""
    return emit(
        kernel(f"""kernel.func @k(%x0 : memref<4xi32>, %y : memref<4xi32>) access [read, write]
    global [1, 1, 1] local [1, 1, 1] {{
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %four = arith.constant 4 : index
  %none = arith.constant 0 : i32
  %two = arith.constant 2 : i32
  %five = arith.constant 5 : i32
  %c = arith.constant -7 : i32
  %x = memref.load %x0[%zero] : memref<4xi32>
  {lines}
  kernel.return
}}"""),
        NVIDIA,
    )


@pytest.mark.parametrize("name", SUMS)
def test_sums_that_a_loop_changes_are_found_wherever_they_come_from(name: str) -> None:
    found = emitted(f"""%own = memref.alloca() : memref<4xi32, #kernel.space<private>>
  scf.for %i = %zero to %four step %one {{
    {SUMS[name]}
    memref.store %r, %y[%i] : memref<4xi32>
  }}""")
    assert "min_in_bits" in found and " min(" not in found, found


MINIMA = {
    "an operation": "%m = arith.minsi %x, %two : i32",
    "a select": "%t = arith.cmpi slt, %x, %two : i32\n%m = arith.select %t, %x, %two : i32",
    "a cast of one": "%p = arith.index_cast %x : i32 to index\n%n = arith.minsi %p, %one : index\n"
    "%m = arith.index_cast %n : index to i32",
    "that of lanes": "%v = vector.load %x0[%zero] : memref<4xi32>, vector<4xi32>\n"
    "%m = vector.reduction <minsi>, %v : vector<4xi32> into i32",
}


@pytest.mark.parametrize("name", MINIMA)
def test_a_maximum_of_zero_and_any_minimum_is_made_of_bits(name: str) -> None:
    found = emitted(f"""{MINIMA[name]}
  %r = arith.maxsi %m, %none : i32
  memref.store %r, %y[%zero] : memref<4xi32>""")
    assert "at_least_zero(" in found and " max(" not in found, found
    assert ">> 31" not in found, "LLVM makes a maximum of that"


def test_what_no_loop_changes_keeps_its_instruction() -> None:
    text = emit(
        kernel("""kernel.func @k(%x : memref<8xi32>, %y : memref<8xi32>) access [read, write]
    global [8, 1, 1] local [8, 1, 1] {
  %i = kernel.global_id 0
  %five = arith.constant 5 : index
  %one = arith.constant 1 : index
  %next = arith.addi %i, %one : index
  %place = arith.minsi %next, %five : index
  %v = memref.load %x[%place] : memref<8xi32>
  memref.store %v, %y[%i] : memref<8xi32>
  kernel.return
}"""),
        NVIDIA,
    )
    assert "min(" in text and "asm" not in text
