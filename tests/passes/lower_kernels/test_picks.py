"""One of two values by a condition that hardly varies: `pick` in kernels of every kind that reads
one, and that what is not picked is not read.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import memref, scf, vector
from xdsl.ir import Operation

from mgn.dialects.kernel import DEVICES, FuncOp
from tests.support.lower_fixture import (
    FORMS,
    Run,
    check_all,
    forms_of,
    fused_kernel,
    lowered,
    same_values,
)
from tests.support.opencl_fixture import cl_queue  # noqa: F401

SHAPE = (6, 40)
KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "pointwise": lambda b, x: b.neg(x),
    "reduction": lambda b, x: b.max_reduce(x, axis=[1]),
    "scan": lambda b, x: b.running_sum(x, axis=1),
    "scatter": lambda b, x: b.scatter_along(x, b.iota([1, 40], axis=1, T="i32"), x, axis=1),
    "order": lambda b, x: b.sort_runs(x, x, axis=1),
}
CONDITIONS = [(1, 1), (6, 1), (1, 40), (6, 40), (1,)]


def runs_of(kind: str, condition: tuple[int, ...], element: str) -> list[Run]:
    """A kernel that reads what is picked of two inputs, or of one and of positions."""
    random = np.random.default_rng(3)
    test = random.random(condition) < 0.5
    arrays = [random.integers(-9, 9, SHAPE).astype(element) for _ in range(2)]
    named = {"float32": "f32", "int32": "i32", "float16": "f16"}[element]
    types = [("bool", condition), *[(named, SHAPE)] * 2]
    runs: list[Run] = []
    for value in (test, ~test):
        kernel = fused_kernel(kind, types, lambda b, c, x, y: KINDS[kind](b, b.pick(c, x, y)))
        runs += forms_of(kernel, [value, *arrays], f"{kind} {condition}")
    if named == "i32":

        def of_positions(b: Any, c: Any, x: Any) -> Any:
            places = b.broadcast_to(b.iota([1, 40], axis=1, T="i32"), SHAPE)
            return KINDS[kind](b, b.pick(c, x, places))

        kernel = fused_kernel(kind, types[:2], of_positions)
        runs += forms_of(kernel, [test, arrays[0]], f"{kind} {condition} of positions")
    return runs


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_kernel_reads_what_is_picked(kind: str, cl_queue: Any) -> None:  # noqa: F811
    runs: list[Run] = []
    for number, condition in enumerate(CONDITIONS):
        runs += runs_of(kind, condition, ("float32", "int32", "float16")[number % 3])
    check_all(cl_queue, runs, same_values)


def loads_of(function: FuncOp, number: int) -> list[Operation]:
    """Where a kernel reads an argument."""
    loads = (memref.LoadOp, vector.LoadOp)
    return [
        use.operation for use in function.arguments[number].uses if isinstance(use.operation, loads)
    ]


def way_of(load: Operation, condition: Any) -> int | None:
    """Which way of a branch by the condition an operation is on."""
    while (block := load.parent) is not None and (parent := block.parent_op()) is not None:
        if isinstance(parent, scf.IfOp) and parent.cond is condition:
            return 0 if block.parent is parent.true_region else 1
        load = parent
    return None


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_picked_is_not_read(kind: str, form: str) -> None:
    """The condition is read once, before all loops; each value on its way alone."""
    types = [("bool", (1, 1)), *[("f32", (6, 4000))] * 2]
    make = {**KINDS, "scatter": lambda b, x: b.scatter_along(x, b.cast(x, "i32"), x, axis=1)}
    kernel = fused_kernel(kind, types, lambda b, c, x, y: make[kind](b, b.pick(c, x, y)))
    function = lowered(kernel, FORMS[form])
    (decided,) = loads_of(function, 0)
    assert isinstance(decided.parent_op(), FuncOp)
    tests = {op.cond for op in function.walk() if isinstance(op, scf.IfOp)}
    for number, way in ((1, 0), (2, 1)):
        loads = loads_of(function, number)
        assert loads
        for load in loads:
            assert any(way_of(load, test) == way for test in tests), str(load)


def test_what_follows_a_product_reads_what_it_picks() -> None:
    """Nor before the sums are known, where other values are read that a result needs."""
    types = [("bool", (1, 1)), *(("f32", shape) for shape in ((64, 64), (64, 512), (64, 512)))]
    kernel = fused_kernel(
        "contraction", types, lambda b, c, x, w, y: b.pick(c, b.matmul(x, w), b.neg(y))
    )
    function = lowered(kernel, DEVICES["nvidia-h200"])
    tests = {op.cond for op in function.walk() if isinstance(op, scf.IfOp)}
    loads = loads_of(function, 3)
    assert loads
    for load in loads:
        assert any(way_of(load, test) == 1 for test in tests), str(load)


def test_a_condition_that_is_no_input_is_computed_where_it_is_known(
    cl_queue: Any,  # noqa: F811
) -> None:
    def body(b: Any, x: Any, y: Any) -> Any:
        most = b.max_reduce(x, axis=[0, 1], keepdims=True)
        return b.pick(b.gt(most, 3.0), x, y)

    arrays = [np.random.default_rng(1).integers(-9, 9, SHAPE).astype(np.float32) for _ in range(2)]
    runs: list[Run] = []
    for factor in (0, 1):
        kernel = fused_kernel("reduction", [("f32", SHAPE)] * 2, body)
        runs += forms_of(kernel, [factor * arrays[0], arrays[1]])
    check_all(cl_queue, runs, same_values)
