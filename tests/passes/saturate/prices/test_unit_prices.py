"""Which matrix unit a kernel is for is part of what is extracted: its price, its check and its
schedule go by what it says, and by nothing else. A product takes the unit where that is cheaper.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion import FusedKernelOp, ScheduleAttr
from mgn.dialects.kernel import DEVICES, Device, GroupMmaOp, MmaOp
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import GraphOp
from mgn.passes.lower_kernels import lower_kernel
from mgn.passes.saturate import saturate_graph
from mgn.passes.saturate.arrange_kernels import arrange_kernel, template_of
from mgn.passes.saturate.candidates.offers import find_candidates
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.check import ExtractionError, check_selection
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.extraction.extract import extract
from mgn.passes.saturate.prices.forms import Facts
from mgn.passes.saturate.prices.matrix_price import COMPUTED_KEYS
from mgn.passes.saturate.prices.prices import price_kernel
from mgn.passes.saturate.saturate import saturated_view
from mgn.passes.schedules.choose import schedule_for
from tests.passes.saturate.saturate_programs import build_graph, f32, kernels_of
from tests.support.lower_fixture import CPU, fused_kernel

H200 = DEVICES["nvidia-h200"]
SLOW = H200.with_figures(rates={"f32": 1e11})
"""A device that is slow but for its matrix unit, which is worth it for the smallest product."""
UNITS = ("bf16", "f16", "tf32")

Change = Callable[[Any, Any], Any]

OPERANDS: dict[str, tuple[str, Change, str | None, str | None]] = {
    "plain": ("f32", lambda b, x: x, None, None),
    "tf32": ("f32", lambda b, x: b.round_tf32(x), "tf32", "tf32"),
    "tf32 of a turned one": (
        "f32", lambda b, x: b.round_tf32(b.transpose(x, [1, 0])), "tf32", "tf32",
    ),
    "turned tf32": ("f32", lambda b, x: b.transpose(b.round_tf32(x), [1, 0]), "tf32", "tf32"),
    "tf32 of a computed one": ("f32", lambda b, x: b.round_tf32(b.exp(x)), "tf32", None),
    "computed from tf32": ("f32", lambda b, x: b.exp(b.round_tf32(x)), None, None),
    "widened bf16": ("bf16", lambda b, x: b.cast(x, "f32"), "bf16", "bf16"),
    "sliced bf16": (
        "bf16",
        lambda b, x: b.cast(b.slice(x, [0, 0], [*x.type.get_shape()], [1, 1]), "f32"),
        "bf16", "bf16",
    ),
    "tf32 of widened bf16": ("bf16", lambda b, x: b.round_tf32(b.cast(x, "f32")), "tf32", None),
    "bf16 made on the way": ("f32", lambda b, x: b.cast(b.cast(x, "bf16"), "f32"), "bf16", None),
    "widened f16": ("f16", lambda b, x: b.cast(x, "f32"), "f16", "f16"),
    "narrowed twice": (
        "f32", lambda b, x: b.cast(b.cast(b.round_tf32(x), "bf16"), "f32"), "bf16", None,
    ),
    "bf16": ("bf16", lambda b, x: x, "bf16", "bf16"),
    "f16": ("f16", lambda b, x: x, "f16", "f16"),
    "computed f16": ("f16", lambda b, x: b.exp(x), "f16", None),
}  # fmt: skip
"""The type of a square in memory, what is done before it is multiplied, and what a unit then
multiplies in a product and in an attention of many keys: what every group would compute of them, it
does not. Few keys are computed as operands of a product are.
"""

MANY = COMPUTED_KEYS + 8


def product(name: str) -> FusedKernelOp:
    element, change, *_ = OPERANDS[name]
    return fused_kernel(
        "contraction",
        [(element, (64, 64))] * 2,
        lambda b, x, y: b.matmul(change(b, x), change(b, y)),
    )


def attention(name: str, keys: int = MANY) -> FusedKernelOp:
    element, change, *_ = OPERANDS[name]
    return fused_kernel(
        "attention",
        [(element, (keys, 64))] * 3,
        lambda b, *inputs: b.attention(*(change(b, x) for x in inputs), heads=2),
    )


def facts_of(kernel: FusedKernelOp, device: Device = SLOW) -> dict[str, int | str]:
    """What the e-graph has such a kernel say."""
    template, _ = template_of(kernel, device, [])
    assert template is not None
    return dict(template.facts)


def says(kernel: FusedKernelOp, unit: str | None) -> FusedKernelOp:
    kernel.arranged = None if unit is None else ScheduleAttr.of(matrix=unit)
    return kernel


def scheduled_unit(kernel: FusedKernelOp) -> str | None:
    return schedule_for(kernel, H200).values.get("matrix")


@pytest.mark.parametrize("name", list(OPERANDS))
def test_a_kernel_says_what_its_operands_are_rounded_to(name: str) -> None:
    *_, multiplied, attended = OPERANDS[name]
    few = (attention(name, COMPUTED_KEYS), multiplied)
    for kernel, unit in ((product(name), multiplied), few, (attention(name), attended)):
        assert facts_of(kernel) == ({} if unit is None else {"matrix": unit})


@pytest.mark.parametrize("name", list(OPERANDS))
def test_no_kernel_may_say_anything_else(name: str) -> None:
    *_, rounded, _ = OPERANDS[name]
    for kernel in (product(name), attention(name)):
        says(kernel, None).verify()
        for unit in UNITS:
            says(kernel, unit)
            if unit == rounded:
                kernel.verify()
                continue
            with pytest.raises(VerifyException, match=f"is not rounded to {unit}"):
                kernel.verify()


def test_operands_of_different_types_and_other_kernels_have_no_unit() -> None:
    mixed = fused_kernel(
        "contraction",
        [("f32", (64, 64)), ("bf16", (64, 64))],
        lambda b, x, y: b.matmul(b.round_tf32(x), b.cast(y, "f32")),
    )
    copy = fused_kernel("pointwise", [("f32", (64, 64))], lambda b, x: b.round_tf32(x))
    for kernel in (mixed, copy):
        assert facts_of(kernel) == {}
        for unit in UNITS:
            with pytest.raises(VerifyException, match="is not rounded"):
                says(kernel, unit).verify()


@pytest.mark.parametrize("make", [product, attention])
def test_what_a_kernel_says_alone_decides_its_schedule(
    make: Callable[[str], FusedKernelOp],
) -> None:
    for name in OPERANDS:
        kernel = make(name)
        for unit in (None, *UNITS, None):
            assert scheduled_unit(says(kernel, unit)) == unit
            assert "matrix" not in schedule_for(kernel, CPU).values
    for unit in (None, *UNITS):
        plain, rounded = (schedule_for(says(make(name), unit), H200) for name in ("plain", "tf32"))
        assert plain == rounded


def test_what_a_schedule_says_is_held_to_the_operands_too() -> None:
    kernel = product("tf32")
    kernel.schedule = ScheduleAttr.of(matrix="tf32")
    kernel.verify()
    kernel.schedule = ScheduleAttr.of(matrix="bf16")
    with pytest.raises(VerifyException, match="is not rounded to bf16"):
        kernel.verify()


def test_a_kernel_is_written_for_the_unit_that_it_names() -> None:
    kernel = product("bf16")
    for unit in ("bf16", None):
        entries = schedule_for(says(kernel, unit), H200).values
        operations = {type(op) for op in lower_kernel(kernel, "named", entries).walk()}
        assert bool(operations & {MmaOp, GroupMmaOp}) == (unit is not None)


@pytest.mark.parametrize("size", [64, 128])
def test_heads_do_without_a_unit_whose_tiles_have_no_room_for_them(size: int) -> None:
    device = H200.with_figures(matrix_unit="mma", local_memory=48 * 1024)
    kernel = fused_kernel(
        "attention", [("bf16", (64, size))] * 3, lambda b, *inputs: b.attention(*inputs, heads=1)
    )
    said = facts_of(kernel, device)
    entries = schedule_for(says(kernel, "bf16"), device).values
    written = any(isinstance(op, MmaOp) for op in lower_kernel(kernel, "heads", entries).walk())
    assert bool(said) == written == (size == 64)


@pytest.mark.parametrize(("unit", "inner"), [("mma", 64), ("mma", 63), ("wgmma", 63)])
def test_numbers_of_two_bytes_come_to_a_unit_without_groups_in_pairs(unit: str, inner: int) -> None:
    device = SLOW.with_figures(matrix_unit=unit)
    kernel = fused_kernel(
        "contraction",
        [("bf16", (64, inner)), ("bf16", (inner, 64))],
        lambda b, x, y: b.matmul(x, y),
    )
    said = facts_of(kernel, device)
    entries = schedule_for(says(kernel, "bf16"), device).values
    operations = {type(op) for op in lower_kernel(kernel, "pairs", entries).walk()}
    written = bool(operations & {MmaOp, GroupMmaOp})
    assert bool(said) == written == (unit == "wgmma" or inner == 64)


def test_kernels_written_by_hand_are_told_by_the_pass_that_arranges_them() -> None:
    (kernel,) = arrange_kernel(product("bf16"), SLOW)
    assert scheduled_unit(kernel) == "bf16"
    (kernel,) = arrange_kernel(product("bf16"), CPU)
    assert kernel.arranged is None


def rounded_layer(size: int) -> GraphOp:
    def body(b: Emitter, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.relu(b.matmul(b.round_tf32(x), b.round_tf32(w)))

    return build_graph(body, f32(size, size), f32(size, size))


def test_kernels_that_are_extracted_say_which_unit_they_were_priced_for() -> None:
    graph = rounded_layer(64)
    saturate_graph(graph, SLOW)
    (kernel,) = kernels_of(graph)
    assert kernel.arranged == ScheduleAttr.of(matrix="tf32")
    graph = rounded_layer(64)
    saturate_graph(graph, CPU)
    assert all(kernel.arranged is None for kernel in kernels_of(graph))


def test_the_checker_holds_what_a_kernel_says_against_its_body_and_its_price() -> None:
    view = saturated_view(rounded_layer(512))
    found = find_candidates(view, H200, Reach(view))
    selection = extract(found).selection
    check_selection(view, found, selection, H200)
    (chosen,) = (found.candidates[number] for number in selection.kernels)
    assert chosen.template.facts == (("matrix", "tf32"),)
    for facts, reason in (((), "the cost is"), ((("matrix", "bf16"),), "matrix = bf16, falsely")):
        chosen.template = replace(chosen.template, facts=facts)
        with pytest.raises(ExtractionError, match=reason):
            check_selection(view, found, selection, H200)


@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("size", [16, 64, 512, 2048])
@pytest.mark.parametrize("rate", [1e11, 5e13, 1e16])
def test_a_product_takes_the_unit_where_that_is_cheaper(
    element: str, size: int, rate: float
) -> None:
    device = H200.with_figures(rates={"f32": rate})
    kernel = fused_kernel(
        "contraction",
        [(element, (size, size))] * 2,
        lambda b, x, y: b.matmul(*((b.round_tf32(v) if element == "f32" else v) for v in (x, y))),
    )
    signatures: list[Signature] = []
    template, _ = template_of(kernel, device, signatures)
    assert template is not None
    unit: Facts = (("matrix", "tf32" if element == "f32" else element),)
    types = dict(enumerate(value.type for value in kernel.block.args))
    own = (template.body, template.form, template.results, types, signatures, device)
    apart: dict[Facts, float] = {
        facts: price_kernel(*own, facts)  # type: ignore
        for facts in ((), unit)
    }
    assert template.price == min(apart.values()) == apart[template.facts]
    if rate != 5e13:
        assert template.facts == (unit if rate == 1e11 else ())


@pytest.mark.parametrize("rate", [1e11, 1e16])
def test_what_the_unit_is_worth_decides_for_a_layer_and_its_copies(rate: float) -> None:
    graph = rounded_layer(512)
    saturate_graph(graph, H200.with_figures(rates={"f32": rate}))
    assert ("matrix" in str(graph)) == (rate == 1e11)
