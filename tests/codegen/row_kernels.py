"""The kernels of all rows of arithmetic, a batch of rows built as one program.

In: a case. Out: its kernels, one for each number of lanes, and their signatures.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from xdsl.dialects.builtin import StringAttr

from mgn.codegen.signature import KernelSignature
from mgn.dialects.kernel import Device, FuncOp
from tests.codegen.opencl_cases import CASES, Case, case_text
from tests.support.opencl_fixture import device_description, kernel

Joint = Callable[[Sequence[FuncOp], Sequence[Device]], list[KernelSignature]]
BATCH = 40
NUMBER = {case: number for number, case in enumerate(CASES)}


@cache
def row_kernels(number: int) -> list[FuncOp]:
    """The kernels of a case, each with a name of its own."""
    kernels = [kernel(case_text(CASES[number], lanes)) for lanes in CASES[number].lanes]
    for func, lanes in zip(kernels, CASES[number].lanes, strict=True):
        func.sym_name = StringAttr(f"row_{number}_{lanes}")
    return kernels


def row_signatures(case: Case, joint: Joint, queue: Any) -> list[KernelSignature]:
    """A case's kernels for the device of a queue, in the form that `joint` gives them."""
    batch, place = divmod(NUMBER[case], BATCH)
    return _batch(batch, joint, queue)[place]


@cache
def _batch(batch: int, joint: Joint, queue: Any) -> list[list[KernelSignature]]:
    numbers = range(batch * BATCH, min(len(CASES), (batch + 1) * BATCH))
    kernels = [func for number in numbers for func in row_kernels(number)]
    signatures = iter(joint(kernels, [device_description(queue)] * len(kernels)))
    return [[next(signatures) for _ in row_kernels(number)] for number in numbers]
