"""Every elementwise operation has a cost, so that none is taken for an addition by mistake."""

import pytest

from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.dialects.mgn.operation import Kind

ELEMENTWISE = [name for name, spec in OPERATIONS.items() if spec.kind is Kind.ELEMENTWISE]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elementwise_operation_has_a_cost(name: str) -> None:
    assert min(ELEMENT_COST[name]) > 0


def test_only_elementwise_operations_have_one() -> None:
    assert set(ELEMENT_COST) == set(ELEMENTWISE)
