"""Every operation in f16 and bf16 on the device, beside the interpreter in f64."""

import os
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Region, SSAValue

import mgn
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import GraphOp, ReturnOp
from mgn.dialects.types import element_of_dtype, tensor
from tests.dialects.case import Case, Source
from tests.dialects.operation_cases import CASES

HALVES = {"f16": (np.float16, 2.0**-10), "bf16": (ml_dtypes.bfloat16, 2.0**-7)}
TOGETHER = 14
"""Cases of one program."""

FIRST = list({item.name: item for item in CASES}.values())
"""A case of each operation."""


def program(cases: Sequence[Case], dtype: Any) -> tuple[ModuleOp, GraphOp, dict[str, np.ndarray]]:
    """One graph of several cases, whose arrays are its inputs."""
    block, given, results = Block(), dict[str, np.ndarray](), dict[str, SSAValue]()
    emitter = Emitter(block.add_op)

    def entered(value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            return [entered(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(value, np.ndarray):
            return value
        given[f"x{len(given)}"] = value
        return block.insert_arg(tensor(element_of_dtype(value.dtype), value.shape), len(block.args))

    for number, item in enumerate(cases):
        arguments = [entered(value) for value in item.arguments(Source(dtype, number))]
        made = emitter.call(item.name, *arguments, **dict(item.keywords))
        several = made if isinstance(made, tuple) else (made,)
        results |= {f"{item}.{number}.{n}": value for n, value in enumerate(several)}
    block.add_op(ReturnOp(list(results.values())))
    graph = GraphOp("g", list(given), list(results), Region(block))
    return ModuleOp([graph]), graph, given


@pytest.mark.parametrize("element", HALVES)
@pytest.mark.parametrize("first", range(0, len(FIRST), 2 * TOGETHER))
def test_operations_of_half_precision_err_by_their_rounding(element: str, first: int) -> None:
    dtype, unit = HALVES[element]
    skipped = TOGETHER * (element == "bf16")
    cases = FIRST[first + skipped : first + skipped + TOGETHER]
    if not cases:
        pytest.skip("the other type has the last cases")
    module, graph, given = program(cases, dtype)
    exact = Interpreter(wide=True).run(graph, given)
    own = Interpreter().run(graph, given)
    device = os.environ.get("MGN_TEST_DEVICE", "auto")
    found = mgn.compile(module, device=device)(**given)
    for name, value in found.items():
        if exact[name].dtype.kind != "f":
            np.testing.assert_array_equal(value, own[name], name)
            continue
        want = exact[name].astype(np.float64)
        bound = 4 * unit * (np.abs(want) + 0.25 * np.abs(want).max(initial=0.0) + 1e-3)
        np.testing.assert_array_less(np.abs(value.astype(np.float64) - want), bound, name)


def test_vectors_of_halves_begin_at_any_number(device_target: str) -> None:
    """In rows of 13, most do; PoCL's own loads and stores of them end the process."""
    text = """graph g(x: f16[3, 13], s: f16) {
      return t = exp(x), m = max_reduce(x, axis = 1), b = broadcast_to(s, [1, 7, 13])
    }"""
    device = os.environ.get("MGN_TEST_DEVICE", "cpu")
    exe = mgn.compile(mgn.parse(text), device=device, target=device_target)
    x = np.random.default_rng(0).standard_normal((3, 13)).astype(np.float16)
    found = exe(x=x, s=1.5)
    np.testing.assert_allclose(found["t"], np.exp(x.astype(np.float64)), rtol=2**-10)
    np.testing.assert_array_equal(found["m"], x.max(1))
    np.testing.assert_array_equal(found["b"], np.full((1, 7, 13), 1.5, np.float16))
