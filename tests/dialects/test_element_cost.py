"""Every elementwise operation has a cost, so that none is taken for an addition by mistake; that of
a function is near what a device takes.
"""

import pytest

from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.element_cost import ELEMENT_COST
from mgn.dialects.mgn.operation import Kind
from mgn.runtime.devices import choose
from mgn.runtime.errors import DeviceError
from tests.element_costs import BY_DIVIDER, FUNCTIONS, measured

ELEMENTWISE = [name for name, spec in OPERATIONS.items() if spec.kind is Kind.ELEMENTWISE]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elementwise_operation_has_a_cost(name: str) -> None:
    assert min(ELEMENT_COST[name]) > 0


def test_only_elementwise_operations_have_one() -> None:
    assert set(ELEMENT_COST) == set(ELEMENTWISE)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in BY_DIVIDER])
def test_a_function_costs_about_what_it_takes_on_the_device(name: str) -> None:
    try:
        choose("cpu")
    except DeviceError:
        pytest.skip("no OpenCL device for the CPU: install the extra 'cpu'")
    (cost,) = measured([name]).values()
    assert 1 / 3 < cost / ELEMENT_COST[name].cpu < 3, f"{name} took the time of {cost:.0f}"
