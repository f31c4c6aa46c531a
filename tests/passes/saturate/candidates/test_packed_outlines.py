"""Packed products as candidates: each product is written once, whatever its kernel does besides."""

from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.build import Emitter
from mgn.passes.arrangements.prepack_products import PackedOperand
from mgn.passes.saturate.candidates.offers import find_candidates
from mgn.passes.saturate.candidates.outlines import Outlines
from mgn.passes.saturate.candidates.pieces import Outline, OwnNames
from mgn.passes.saturate.candidates.reach import Reach
from mgn.passes.saturate.saturate import saturated_view
from tests.passes.saturate.saturate_programs import CPU, build_graph, f32


def products(b: Emitter, x: SSAValue, w: SSAValue, odd: SSAValue, wide: SSAValue) -> list[SSAValue]:
    """Products with prologues, epilogues, columns that fill no whole panels, and one of a value
    with itself.
    """
    h = b.matmul(b.tanh(x), w)
    turned = b.matmul(x, wide, transpose_b=True)
    return [
        b.add(b.relu(h), x),
        b.mul(b.sigmoid(h), turned),
        b.exp(b.matmul(h, odd)),
        b.matmul(x, x),
        b.sum(b.mul(b.matmul(b.neg(x), w), 0.5), axis=1),
    ]


def said(outline: Outline | None) -> object:
    """All of an outline that can be compared."""
    if outline is None:
        return None
    pieces = [
        (p.body, p.form.kind, p.form.places, p.form.heavy, p.results, p.reads, p.price, p.facts)
        for p in outline.pieces
    ]
    return tuple(outline.made), tuple(outline.members), pieces


def test_an_outline_of_a_packed_product_is_what_the_kernels_written_for_it_come_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed, compared = Outlines._packed, list[bool]()  # pyright: ignore[reportPrivateUsage]

    def checked(
        outlines: Outlines, way: PackedOperand, own: OwnNames, types: Sequence[TensorType]
    ) -> Outline | None:
        found = packed(outlines, way, own, types)
        compared.append(said(found) == said(outlines.written(way, own, types)))
        return found

    monkeypatch.setattr(Outlines, "_packed", checked)
    types = (f32(512, 512), f32(512, 512), f32(512, 328), f32(512, 512))
    view = saturated_view(build_graph(products, *types))
    find_candidates(view, CPU, Reach(view))
    assert len(compared) >= 8
    assert all(compared)


def test_each_product_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    written = list[int]()
    whole = Outlines.written

    def counted(
        outlines: Outlines, way: PackedOperand, own: OwnNames, types: Sequence[TensorType]
    ) -> Outline | None:
        written.append(len(own.body))
        return whole(outlines, way, own, types)

    monkeypatch.setattr(Outlines, "written", counted)
    types = (f32(512, 512), f32(512, 512), f32(512, 328), f32(512, 512))
    view = saturated_view(build_graph(products, *types))
    find_candidates(view, CPU, Reach(view))
    assert 3 <= len(written) <= 5
    assert set(written) == {1}
