"""The contract's calls, through the language: the interpreter and a device against NumPy."""

import os
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import mgn
from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.types import element_of_dtype
from mgn.frontend.print_mgn import print_mgn
from mgn.runtime.errors import DeviceError
from tests.frontend.contract_cases import CASES, INPUTS
from tests.support.programs import parse

ROWS = [
    pytest.param(group, n, id=f"{group}-{expression}")
    for group, rows in CASES.items()
    for n, (expression, _) in enumerate(rows)
]


def program(group: str) -> str:
    """A graph of all expressions of a group."""
    head = ", ".join(
        f"{name}: {element_of_dtype(array.dtype).name}[{', '.join(map(str, array.shape))}]"
        for name, array in INPUTS.items()
    )
    lines = [f"out_{n} = {expression}" for n, (expression, _) in enumerate(CASES[group])]
    names = ", ".join(f"out_{n}" for n in range(len(lines)))
    return "\n".join([f"graph g({head}) {{", *lines, f"return {names}", "}"])


@cache
def interpreted(group: str) -> dict[str, np.ndarray]:
    (graph,) = graphs_of(mgn.parse(program(group)).lower())
    return Interpreter().run(graph, INPUTS)


@cache
def computed(group: str) -> dict[str, np.ndarray]:
    device = os.environ.get("MGN_TEST_DEVICE", "cpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return mgn.compile(mgn.parse(program(group)), device=device)(**INPUTS)
    except DeviceError:
        pytest.skip("no such OpenCL device: install the extra 'cpu', or set MGN_TEST_DEVICE")


def assert_close(result: np.ndarray, expected: Any) -> None:
    wanted = np.asarray(expected)
    assert result.shape == wanted.shape
    if result.dtype.kind in "iub":
        np.testing.assert_array_equal(result, wanted)
        return
    tolerance = 1e-3 if result.dtype == np.float16 else 3e-6
    np.testing.assert_allclose(
        result.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(("group", "n"), ROWS)
def test_the_interpreter_computes_what_numpy_does(group: str, n: int) -> None:
    assert_close(interpreted(group)[f"out_{n}"], CASES[group][n][1])


@pytest.mark.parametrize(("group", "n"), ROWS)
def test_a_device_computes_what_numpy_does(group: str, n: int) -> None:
    assert_close(computed(group)[f"out_{n}"], CASES[group][n][1])


@pytest.mark.parametrize("group", list(CASES))
def test_a_program_reads_back_from_its_text(group: str) -> None:
    module = mgn.parse(program(group)).lower()
    assert module.is_structurally_equivalent(parse(str(module)))
    assert module.is_structurally_equivalent(mgn.parse(print_mgn(module)).lower())
