"""Sorts by the e-graph: rows that a group of a GPU or a vector of a CPU holds are sorted at once,
others in steps.
"""

import pytest

import mgn

CASES = {
    "rows of a group": ("nvidia-h200", "f32[4096, 4096]", 1),
    "rows that are longer": ("nvidia-h200", "f32[2048, 16384]", 4),
    "fewer of them, in parts": ("nvidia-h200", "f32[512, 16384]", 12),
    "rows of wide keys": ("nvidia-h200", "i64[4096, 4096]", 8),
    "rows on a CPU": ("cpu", "f32[4096, 4096]", 1),
    "rows on a CPU that are longer": ("cpu", "f32[512, 16384]", 4),
}


@pytest.mark.parametrize("call", ["sort(x)", "argsort(x)"])
@pytest.mark.parametrize("name", CASES)
def test_rows_are_sorted_at_once_where_a_group_holds_them(name: str, call: str) -> None:
    device, type, kernels = CASES[name]
    module = mgn.parse(f"graph g(x: {type}) {{ return y = {call} }}")
    assert len(mgn.optimize(module, device=device).report.kernels) == kernels
