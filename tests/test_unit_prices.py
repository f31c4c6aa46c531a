"""The price of a kernel and its schedule say the same of the matrix unit."""

from collections.abc import Callable
from typing import Any

import pytest
from lower_fixture import fused_kernel

from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel import DEVICES
from mgn.passes.arrange_kernels import template_of
from mgn.passes.choose_schedules import schedule_for
from mgn.passes.saturate.matrix_price import matrix_use
from mgn.passes.saturate.view import Signature

H200 = DEVICES["nvidia-h200"]

Change = Callable[[Any, Any], Any]

OPERANDS: dict[str, tuple[str, Change]] = {
    "plain": ("f32", lambda b, x: x),
    "tf32": ("f32", lambda b, x: b.round_tf32(x)),
    "tf32 of a turned one": ("f32", lambda b, x: b.round_tf32(b.transpose(x, [1, 0]))),
    "turned tf32": ("f32", lambda b, x: b.transpose(b.round_tf32(x), [1, 0])),
    "tf32 of a computed one": ("f32", lambda b, x: b.round_tf32(b.exp(x))),
    "computed from tf32": ("f32", lambda b, x: b.exp(b.round_tf32(x))),
    "widened bf16": ("bf16", lambda b, x: b.cast(x, "f32")),
    "sliced bf16": ("bf16", lambda b, x: b.cast(b.slice(x, [0, 0], [64, 64], [1, 1]), "f32")),
    "tf32 of widened bf16": ("bf16", lambda b, x: b.round_tf32(b.cast(x, "f32"))),
    "bf16 made on the way": ("f32", lambda b, x: b.cast(b.cast(x, "bf16"), "f32")),
    "widened f16": ("f16", lambda b, x: b.cast(x, "f32")),
    "narrowed twice": ("f32", lambda b, x: b.cast(b.cast(b.round_tf32(x), "bf16"), "f32")),
    "bf16": ("bf16", lambda b, x: x),
    "f16": ("f16", lambda b, x: x),
    "computed f16": ("f16", lambda b, x: b.exp(x)),
}
"""The type of a square in memory, and what is done before it is multiplied."""


def priced_and_scheduled(kernel: FusedKernelOp) -> tuple[str | None, str | None]:
    """What the unit multiplies as, by the price and by the schedule."""
    signatures: list[Signature] = []
    template, values = template_of(kernel, H200, signatures)
    assert template is not None
    types = {name: values.type_of(name) for name in template.reads}
    use = matrix_use(template.body, signatures, types, H200)
    return use.element if use else None, schedule_for(kernel, H200).values.get("matrix")


@pytest.mark.parametrize("name", list(OPERANDS))
def test_of_a_product(name: str) -> None:
    element, change = OPERANDS[name]
    kernel = fused_kernel(
        "contraction",
        [(element, (64, 64))] * 2,
        lambda b, x, y: b.matmul(change(b, x), change(b, y)),
    )
    priced, scheduled = priced_and_scheduled(kernel)
    assert priced == scheduled


def test_of_a_product_of_different_operands() -> None:
    kernel = fused_kernel(
        "contraction",
        [("f32", (64, 64)), ("bf16", (64, 64))],
        lambda b, x, y: b.matmul(b.round_tf32(x), b.cast(y, "f32")),
    )
    assert priced_and_scheduled(kernel) == (None, None)


@pytest.mark.parametrize("name", list(OPERANDS))
def test_of_an_attention(name: str) -> None:
    element, change = OPERANDS[name]
    kernel = fused_kernel(
        "attention",
        [(element, (64, 64))] * 3,
        lambda b, *inputs: b.attention(*(change(b, x) for x in inputs), heads=2),
    )
    priced, scheduled = priced_and_scheduled(kernel)
    assert priced == scheduled
