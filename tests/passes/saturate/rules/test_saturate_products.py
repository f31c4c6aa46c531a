"""`saturate` on sums, chains and scales of matrix products: rewritten where the price is less, if
fast rules may act.
"""

import pytest
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.passes.saturate import DEFAULT_CLASSES, RuleClass, SaturateOptions, saturate_graph
from tests.passes.saturate.saturate_programs import (
    CPU,
    body_names,
    build_graph,
    f32,
    kernels_of,
    matrices_of,
    saturated,
)

FAST = DEFAULT_CLASSES | {RuleClass.FAST}
"""What these rewrites take: they may overflow or cancel where the program does not."""


@pytest.mark.parametrize("name", ["add", "sub"])
@pytest.mark.parametrize("shared", ["left", "right"])
def test_two_products_with_a_common_factor_become_one(name: str, shared: str) -> None:
    def body(b: Emitter, x: SSAValue, v: SSAValue, w: SSAValue) -> SSAValue:
        if shared == "left":
            return b.call(name, b.matmul(x, v), b.matmul(x, w))
        return b.call(name, b.matmul(v, x), b.matmul(w, x))

    after, _ = saturated(body, f32(64, 64), f32(64, 64), f32(64, 64), classes=FAST)
    assert len(matrices_of(after)) == 1


def test_a_product_that_is_also_returned_is_not_distributed() -> None:
    def body(b: Emitter, x: SSAValue, v: SSAValue, w: SSAValue) -> list[SSAValue]:
        left, right = b.matmul(x, v), b.matmul(x, w)
        return [b.add(left, right), left, right]

    after, _ = saturated(body, f32(64, 64), f32(64, 64), f32(64, 64), classes=FAST)
    assert sorted(map(body_names, kernels_of(after))) == [["matmul"], ["matmul", "add"]]


def test_factors_that_broadcast_differently_stay_two_products() -> None:
    def body(b: Emitter, x: SSAValue, v: SSAValue, w: SSAValue) -> SSAValue:
        return b.add(b.matmul(x, v), b.matmul(x, w))

    after, report = saturated(body, f32(4, 8, 8), f32(8, 8), f32(4, 8, 8), classes=FAST)
    assert report.fired["sum-of-products-of-one-left"] == 0
    assert len(matrices_of(after)) == 2


@pytest.mark.parametrize("written", ["left", "right"])
@pytest.mark.parametrize("thin", ["first", "last"])
def test_a_chain_of_products_is_computed_in_the_cheaper_order(written: str, thin: str) -> None:
    """Through the thin matrix first: 2·256·256·4 products, not 256³."""
    shapes = [f32(256, 256), f32(256, 256), f32(256, 256)]
    shapes[0 if thin == "first" else 2] = f32(4, 256) if thin == "first" else f32(256, 4)

    def body(b: Emitter, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        if written == "left":
            return b.matmul(b.matmul(x, y), z)
        return b.matmul(x, b.matmul(y, z))

    after, _ = saturated(body, *shapes, classes=FAST)
    assert all(4 in op.results[0].type.get_shape() for op in matrices_of(after))  # pyright: ignore


def test_a_chain_whose_inner_product_is_returned_keeps_it() -> None:
    def body(b: Emitter, x: SSAValue, y: SSAValue, z: SSAValue) -> list[SSAValue]:
        inner = b.matmul(x, y)
        return [inner, b.matmul(inner, z)]

    after, _ = saturated(body, f32(64, 128), f32(128, 64), f32(64, 8), classes=FAST)
    assert len(matrices_of(after)) == 2


def test_a_low_rank_update_is_applied_and_not_multiplied_out() -> None:
    def body(b: Emitter, x: SSAValue, down: SSAValue, up: SSAValue) -> SSAValue:
        return b.matmul(x, b.matmul(up, down), transpose_b=True)

    after, _ = saturated(body, f32(16, 256), f32(8, 256), f32(256, 8), classes=FAST)
    assert {op.results[0].type for op in matrices_of(after)} == {f32(16, 8), f32(16, 256)}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("rows", "products"), [(8, 3), (512, 2)])
def test_a_sum_with_a_low_rank_product_is_multiplied_part_by_part_where_rows_are_few(
    rows: int, products: int, turned: bool
) -> None:
    """(x U) D takes rows·8·1024 products, U D takes 8·512·512."""

    def body(b: Emitter, x: SSAValue, w: SSAValue, up: SSAValue, down: SSAValue) -> SSAValue:
        return b.matmul(x, b.add(w, b.matmul(up, down)), transpose_b=turned)

    after, report = saturated(
        body, f32(rows, 512), f32(512, 512), f32(512, 8), f32(8, 512), classes=FAST
    )
    assert len(matrices_of(after)) == products
    name = "product-of-turned-thin-update" if turned else "product-of-thin-update"
    assert report.fired[name] == (products == 3)


@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_common_factor_is_multiplied_once(name: str) -> None:
    def body(b: Emitter, x: SSAValue, r: SSAValue, s: SSAValue) -> SSAValue:
        return b.call(name, b.mul(x, r), b.mul(s, x))

    after, _ = saturated(body, f32(64, 64), f32(64, 1), f32(64, 1), classes=FAST)
    assert list(map(body_names, kernels_of(after))) == [[name, "mul"]]


def test_the_scale_of_rows_passes_through_a_product_and_that_of_the_inner_axis_does_not() -> None:
    def rows(b: Emitter, x: SSAValue, r: SSAValue, w: SSAValue) -> SSAValue:
        return b.matmul(b.mul(x, r), w)

    report = saturate_graph(
        build_graph(rows, f32(8, 4), f32(8, 1), f32(4, 6)), CPU, SaturateOptions(FAST)
    )
    assert report.fired["matmul-row-scale"] == 1
    report = saturate_graph(
        build_graph(rows, f32(8, 4), f32(4), f32(4, 6)), CPU, SaturateOptions(FAST)
    )
    assert report.fired["matmul-row-scale"] == 0


def test_a_scale_of_columns_passes_through_a_product() -> None:
    def body(b: Emitter, x: SSAValue, w: SSAValue, s: SSAValue) -> SSAValue:
        return b.matmul(x, b.mul(w, s))

    after, report = saturated(body, f32(8, 64), f32(64, 64), f32(64), classes=FAST)
    assert report.fired["matmul-column-scale"] == 1
    assert list(map(body_names, kernels_of(after))) == [["matmul", "mul"]]


def test_by_default_products_and_their_scales_stay_as_they_are_written() -> None:
    def scaled(b: Emitter, x: SSAValue, r: SSAValue, w: SSAValue) -> SSAValue:
        return b.matmul(b.matmul(b.mul(x, r), w), w)

    _, report = saturated(scaled, f32(8, 64), f32(8, 1), f32(64, 64))
    moved = [name for name in report.fired if name.startswith(("matmul-", "product-"))]
    assert moved == []
