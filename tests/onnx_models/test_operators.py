"""ONNX's own tests of its operators, a part of them; and the table of operators."""

import pytest

from mgn.frontend.onnx.core.operator import OPERATORS, find
from mgn.frontend.onnx.operators import load_operators
from tests.onnx_models.failures import LISTED
from tests.onnx_models.node_tests import cases, outcomes

pytest.importorskip("onnx")
load_operators()

FILES = (
    "averagepool",
    "bitshift",
    "cast",
    "castlike",
    "clip",
    "convtranspose",
    "dequantizelinear",
    "gathernd",
    "loop",
    "negativeloglikelihoodloss",
    "optionalhaselement",
    "pad",
    "quantizelinear",
    "reduce_log_sum_exp",
    "resize",
    "scan",
    "scatternd",
    "slice",
    "topk",
)
"""Files of ONNX's tests that are run here; `python -m tests.onnx_models.node_tests` runs all."""


def test_each_row_says_what_its_operator_becomes() -> None:
    unsaid = [row for rows in OPERATORS.values() for row in rows if not row.summary]
    assert not unsaid


def test_a_version_finds_the_row_that_was_new_last() -> None:
    old, new = find("", "Softmax", 12), find("", "Softmax", 13)
    assert old is not None and new is not None
    assert (old.since, new.since) == (1, 13)
    assert find("", "Gelu", 19) is None
    assert find("acme", "Gelu", 20) is None


def test_a_part_of_the_tests_of_onnx_fails_where_the_list_says_so() -> None:
    part = cases(files=FILES)
    assert len(part) > 150
    wrong = [
        f"{item.name}: {item.problem or 'passes, and is listed'}"
        for item in outcomes(part, None)
        if bool(item.problem) != (item.name in LISTED)
    ]
    assert not wrong
