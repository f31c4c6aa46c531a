"""The gradient of every operation against differences, once and twice, on all operations' cases."""

from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block, SSAValue

from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.gradients.reverse import has_gradient
from mgn.dialects.mgn.gradients.rules import ELEMENTWISE, FLAT, RULES, WITHOUT
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.types import element_of
from tests.dialects.case import Case, Source
from tests.dialects.operation_cases import CASES
from tests.gradients.differences import check, weighted
from tests.support.programs import call

STAIRS = {"stop_gradient": "by its meaning", "round_tf32": "as if it were not there"}
"""Operations whose gradient is not their slope."""


def _is_float(value: SSAValue) -> bool:
    return element_of(value.type).is_float


def _owner(case: Case) -> TensorOp:
    """The operation of a case."""
    arguments = case.arguments(Source(np.float64))
    owner = call(Block(), case.name, *arguments, **dict(case.keywords))[0].owner
    assert isinstance(owner, TensorOp)
    return owner


def _passes_floats(op: TensorOp) -> bool:
    """Whether an operation has a float result, of floats."""
    return any(map(_is_float, op.operands)) and any(map(_is_float, op.results))


def _differentiable(case: Case) -> bool:
    owner = _owner(case)
    return _passes_floats(owner) and case.name not in STAIRS and has_gradient(owner)


DIFFERENTIABLE = [case for case in CASES if _differentiable(case)]


def _check(case: Case, second: bool) -> None:
    arrays: list[np.ndarray] = []

    def leaf(argument: Any) -> Any:
        if isinstance(argument, list) and any(isinstance(item, np.ndarray) for item in argument):
            return [leaf(item) for item in argument]
        if isinstance(argument, np.ndarray) and argument.dtype == np.float64:
            arrays.append(argument)
            return len(arrays) - 1, "leaf"
        return argument

    arguments = [leaf(item) for item in case.arguments(Source(np.float64))]

    def build(b: Emitter, values: Any) -> SSAValue:
        def value(argument: Any) -> Any:
            if isinstance(argument, tuple) and argument[1:] == ("leaf",):
                return values[argument[0]]
            if isinstance(argument, np.ndarray):
                return b.constant_array(argument)
            if isinstance(argument, list):
                return [value(item) for item in argument]
            return argument

        results = b.call(case.name, *map(value, arguments), **dict(case.keywords))
        return weighted(b, results if isinstance(results, tuple) else (results,))

    check(build, arrays, second)


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_a_gradient_is_the_slope_and_its_gradient_the_slope_of_it(case: Case) -> None:
    _check(case, second=True)


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_operation_has_a_gradient_or_says_why_not(name: str) -> None:
    """A new core operation needs a row in a table of `dialects/mgn/gradients/`."""
    known = {*ELEMENTWISE, *RULES, *FLAT, *WITHOUT}
    owners = (_owner(case) for case in CASES if case.name == name)
    floats = [owner for owner in owners if _passes_floats(owner)]
    assert name in known or all(map(has_gradient, floats))
