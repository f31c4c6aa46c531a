"""ONNX's own tests of its operators, a part of them; and the table of operators."""

import pytest

from mgn.frontend.onnx.core.operator import OPERATORS, find
from mgn.frontend.onnx.operators import load_operators

pytest.importorskip("onnx")
load_operators()


def test_each_row_says_what_its_operator_becomes() -> None:
    unsaid = [row for rows in OPERATORS.values() for row in rows if not row.summary]
    assert not unsaid


def test_a_version_finds_the_row_that_was_new_last() -> None:
    old, new = find("", "Softmax", 12), find("", "Softmax", 13)
    assert old is not None and new is not None
    assert (old.since, new.since) == (1, 13)
    assert find("", "Gelu", 19) is None
    assert find("acme", "Gelu", 20) is None
