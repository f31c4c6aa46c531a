"""Wrong kernels are caught by the guard zones between which all tests of templates run theirs."""

from typing import Any

import numpy as np
import pytest

from mgn.codegen.signature import KernelArgument, KernelSignature
from tests.support.opencl_fixture import cl_queue, run_kernel  # noqa: F401

COUNT = 40


def launch(queue: Any, body: str, element: str = "float") -> np.ndarray:
    """What work-items that each do this write to `y`, from `x`, 0 to 39."""
    name, dtype = ("f32", np.float32) if element == "float" else ("i32", np.int32)
    source = (
        f"__kernel void k(__global const {element} *x, __global {element} *y)"
        f"{{ int i = get_global_id(0); {body} }}"
    )
    arguments = (KernelArgument("read", name, COUNT), KernelArgument("write", name, COUNT))
    kernel = KernelSignature("k", source, (COUNT, 1, 1), (1, 1, 1), arguments)
    arrays = [np.arange(COUNT).astype(dtype), np.empty(COUNT, dtype)]
    run_kernel(queue, kernel, arrays)
    return arrays[1]


@pytest.mark.parametrize("element", ["float", "int"])
def test_a_kernel_that_stays_inside_is_let_through(element: str, cl_queue: Any) -> None:  # noqa: F811
    assert launch(cl_queue, "y[i] = 2 * x[i];", element).tolist() == list(range(0, 2 * COUNT, 2))


@pytest.mark.parametrize("element", ["float", "int"])
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("y[i + 2] = x[i]; if (i < 2) y[i] = 0;", "argument 1 is written 8 bytes past its end"),
        ("y[i - 3] = x[i]; if (i > 36) y[i] = 0;", "argument 1 is written 12 bytes before"),
        ("y[i] = x[i]; ((__global char *)x)[i - 1] = 0;", "argument 0 is written 1 bytes before"),
        ("y[i] = x[i + 1];", r"byte 15\d of argument 1, and \d more, depend on what lies outside"),
        ("y[i] = x[i - 1];", r"byte [0-3] of argument 1, and \d more, depend on what lies"),
        ("if (i != 5) y[i] = x[i];", r"byte 2\d of argument 1, and \d more, depend on"),
        ("y[i] = x[i] + y[i];", "of argument 1, and .* more, depend on"),
    ],
)
def test_a_kernel_that_leaves_its_buffers_is_caught(
    body: str,
    message: str,
    element: str,
    cl_queue: Any,  # noqa: F811
) -> None:
    with pytest.raises(AssertionError, match=message):
        launch(cl_queue, body, element)
