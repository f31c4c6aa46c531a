"""The price of a kernel, from where it is known to where memory is planned.

In: a `kernel.func`, whose note of its schedule has an entry that `price-kernels` made. Out:
seconds.
"""

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr

from mgn.dialects.kernel.buffers import byte_size
from mgn.dialects.kernel.function import FuncOp

PICOSECONDS = "picoseconds"
"""The entry of a schedule that says what the kernel costs."""

BYTE_SECONDS = 1e-11
"""What a byte costs that a kernel of no price moves: those that were written by hand."""


def price_of(function: FuncOp) -> float:
    """What a launch of a kernel costs, in seconds."""
    schedule = function.attributes.get("schedule")
    price = schedule.data.get(PICOSECONDS) if isinstance(schedule, DictionaryAttr) else None
    if isinstance(price, IntegerAttr):
        return price.value.data * 1e-12
    return BYTE_SECONDS * sum(byte_size(argument.type) for argument in function.arguments)
