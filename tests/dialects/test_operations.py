"""Every operation against its independent reference, in every float type, and its decomposition."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.ir import Block

from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.decompose import decomposition_of
from mgn.dialects.mgn.operation import Kind, OperationSpec, TensorOp
from mgn.dialects.mgn.structure import ConstantOp
from tests.dialects.case import Case, Source
from tests.dialects.operation_cases import CASES
from tests.support.programs import call, evaluate

TOLERANCE = {"float64": 1e-11, "float32": 4e-6, "float16": 4e-3, "bfloat16": 3e-2}
TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
COMPOSITES = [spec for spec in OPERATIONS.values() if not spec.is_core]


def in_double(argument: Any) -> Any:
    """Float arrays as f64, which is exact; lists likewise."""
    if isinstance(argument, list):
        return [in_double(item) for item in argument]
    if isinstance(argument, np.ndarray) and argument.dtype.kind not in "iub":
        return argument.astype(np.float64)
    return argument


def built(case: Case, dtype: Any = np.float32) -> TensorOp:
    """The operation of a case, at the end of its block."""
    block = Block()
    (result, *_) = call(block, case.name, *case.arguments(Source(dtype)), **dict(case.keywords))
    assert isinstance(result.owner, TensorOp)
    return result.owner


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_every_operation_has_a_case(name: str) -> None:
    assert name in {case.name for case in CASES}, f"add a case for {name} to operation_cases.py"


@pytest.mark.parametrize("dtype", TYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_operation_agrees_with_its_reference(case: Case, dtype: Any) -> None:
    arguments, keywords = case.arguments(Source(dtype)), dict(case.keywords)
    results = evaluate(case.name, *arguments, **keywords)
    with np.errstate(all="ignore"):
        expected = case.reference(*map(in_double, arguments), **keywords)
    listing = expected if isinstance(expected, tuple) else (expected,)
    tolerance = TOLERANCE[np.dtype(dtype).name]
    assert len(listing) == len(results)
    for result, wanted in zip(results, listing, strict=True):
        wanted = np.asarray(wanted, np.float64)
        assert result.shape == wanted.shape
        bound = tolerance * max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
        np.testing.assert_allclose(result.astype(np.float64), wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_wide_evaluation_computes_floats_in_f64(case: Case) -> None:
    arguments, keywords = case.arguments(Source(np.float32)), dict(case.keywords)
    wide = evaluate(case.name, *arguments, wide=True, **keywords)
    declared = evaluate(case.name, *arguments, **keywords)
    for result, narrow in zip(wide, declared, strict=True):
        assert result.dtype == (np.float64 if narrow.dtype == np.float32 else narrow.dtype)
        np.testing.assert_allclose(result, narrow, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("spec", COMPOSITES, ids=lambda spec: spec.name)
def test_a_decomposition_has_the_types_of_its_operation(spec: OperationSpec) -> None:
    for dtype in TYPES:
        for case in (case for case in CASES if case.name == spec.name):
            op = built(case, dtype)
            expansion = decomposition_of(op)
            for step in expansion.block.ops:
                step.verify()
            assert [value.type for value in expansion.results] == list(op.result_types)


@pytest.mark.parametrize("spec", COMPOSITES, ids=lambda spec: spec.name)
def test_a_decomposition_ends_in_core_operations_and_never_in_itself(spec: OperationSpec) -> None:
    def check(op: TensorOp, above: frozenset[str]) -> None:
        assert op.spec.name not in above
        if op.spec.is_core:
            return
        expansion = decomposition_of(op)
        assert all(not isinstance(value.owner, Block) for value in expansion.results)
        for step in expansion.block.ops:
            if isinstance(step, TensorOp):
                check(step, above | {op.spec.name})
            else:
                assert isinstance(step, ConstantOp)

    for case in (case for case in CASES if case.name == spec.name):
        check(built(case), frozenset())


@pytest.mark.parametrize("spec", COMPOSITES, ids=lambda spec: spec.name)
def test_an_elementwise_composite_decomposes_to_elementwise_steps_and_scalars(
    spec: OperationSpec,
) -> None:
    if spec.kind is not Kind.ELEMENTWISE:
        return
    for dtype in TYPES:
        for case in (case for case in CASES if case.name == spec.name):
            for step in decomposition_of(built(case, dtype)).block.ops:
                if isinstance(step, ConstantOp):
                    assert step.array.ndim == 0
                else:
                    assert isinstance(step, TensorOp) and step.spec.kind is Kind.ELEMENTWISE


@pytest.mark.parametrize("spec", list(OPERATIONS.values()), ids=lambda spec: spec.name)
def test_a_docstring_begins_with_an_example_of_the_operation(spec: OperationSpec) -> None:
    example = spec.summary.split("`")[1]
    assert example.split(" = ", 1)[1].startswith((f"{spec.name}(", "a @ b"))
    if not spec.is_core:
        assert "Shape: " in spec.summary
