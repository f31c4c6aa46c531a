"""Maxima and minima of integers that a loop's counter gives, on the device against NumPy.

NVIDIA's assembler has some wrong where they stand as such (`codegen/opencl/integer_extrema.py`).
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
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
        assert "min(" not in text and "max(" not in text and "? v" not in text, text


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
