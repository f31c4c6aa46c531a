"""No schedule of a product promises more than its device can multiply, and the one that is chosen
is not far from it: a variant with a price of its own is held to both, on shapes drawn at random.
"""

from math import prod

import numpy as np
import pytest

from mgn.dialects.kernel import DEVICES, Device
from mgn.passes.kernels.body import read_body
from mgn.passes.kernels.product import Product
from mgn.passes.schedules.choose import schedules_of
from mgn.passes.schedules.core.schedule import Schedule
from mgn.passes.schedules.product.product import ProductVariant
from mgn.passes.schedules.product.seconds import plain_rate
from tests.support.lower_fixture import CPU, fused_kernel

H200 = DEVICES["nvidia-h200"]
FARTHEST, LATENCY = 16.0, 1e-4
"""How many times what its multiplications take a chosen schedule may say, and seconds beside."""


def _drawn(seed: int, device: Device) -> tuple[Product, list[Schedule]]:
    """A product of random sizes, many of them 1 or few, and its schedules."""
    random = np.random.default_rng(seed)
    rows, columns, depth, batch = (
        int(random.choice([1, 2, random.integers(3, 64), random.integers(64, 2048)]))
        for _ in range(4)
    )
    batches = (batch,) if batch < 16 else ()
    element = str(random.choice(["f32", "f16", "bf16", "f64", "i32"]))
    turns = [bool(turned) for turned in random.integers(0, 2, 2)]
    left = (depth, rows) if turns[0] else (rows, depth)
    right = (columns, depth) if turns[1] else (depth, columns)
    fused = fused_kernel(
        "contraction",
        [(element, (*batches, *left)), (element, (*batches, *right))],
        lambda e, x, y: e.matmul(x, y, transpose_a=turns[0], transpose_b=turns[1]),
    )
    return Product.of_body(read_body(fused)), list(schedules_of(fused, device))


@pytest.mark.parametrize("device", [CPU, H200], ids=["cpu", "nvidia-h200"])
@pytest.mark.parametrize("seed", range(60))
def test_a_product_takes_the_time_of_its_multiplications_and_not_much_more(
    seed: int, device: Device
) -> None:
    product, schedules = _drawn(seed, device)
    count = 2.0 * prod(product.batch) * product.rows * product.columns * product.depth
    rates = [plain_rate(product, device), *device.matrix_rates.values()]
    for item in schedules:
        rate = max(rates) if item.variant == ProductVariant.MATRIX else rates[0]
        assert item.seconds >= 0.999 * count / rate, item
    assert schedules[0].seconds <= FARTHEST * count / rates[0] + LATENCY, schedules[0]
