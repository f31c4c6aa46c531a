"""What a row gives in half precision is a number of that type before it is stored. What reads it in
the same kernel so has the bits that memory would have.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import StringAttr

from tests.codegen.opencl_cases import CASES, COUNT, Case, case_text, samples
from tests.codegen.row_kernels import Joint
from tests.support.joint_programs import opencl_signatures, spirv_signatures
from tests.support.opencl_fixture import (
    DTYPES,
    cl_queue,  # noqa: F401
    device_description,
    kernel,
    run_kernel,
)

HALVES = [
    case
    for case in CASES
    if case.result in ("f16", "bf16") and 1 in case.lanes and "\n" not in case.body
]


def _read_wide(case: Case) -> Case:
    """A case whose result is read as f32 in the kernel that computes it."""
    body = case.body.replace("{r}", case.result).replace("%r =", "%h =")
    return replace(case, body=f"{body}\n%r = arith.extf %h : {case.result} to f32", result="f32")


JOINT: dict[str, Joint] = {"opencl": opencl_signatures, "spirv": spirv_signatures}


def test_a_row_in_half_precision_gives_numbers_of_that_type(
    device_target: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    kernels = [kernel(case_text(_read_wide(case), 1)) for case in HALVES]
    for number, func in enumerate(kernels):
        func.sym_name = StringAttr(f"row_{number}")
    found = JOINT[device_target](kernels, [device_description(cl_queue)] * len(kernels))
    wide: list[str] = []
    for case, tested in zip(HALVES, found, strict=True):
        inputs = [samples(e, seed, case.low, case.high) for seed, e in enumerate(case.inputs)]
        result = np.empty(COUNT, np.float32)
        run_kernel(cl_queue, tested, [*inputs, result])
        with np.errstate(over="ignore", invalid="ignore"):
            held = result.astype(DTYPES[case.result]).astype(np.float32)
        wide += [] if np.array_equal(held, result, equal_nan=True) else [str(case)]
    assert wide == [], "these rows do not round: see ROUNDED_BUILTINS, or `rounded` in their row"
