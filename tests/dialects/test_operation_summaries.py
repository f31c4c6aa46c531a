"""The example that begins each operation's summary is a statement of the language."""

import re

import pytest

import mgn
from mgn.dialects.mgn import OPERATIONS

INPUTS = {
    **dict.fromkeys(("x", "a", "b", "gate", "up", "target", "logits"), "f32[4, 8]"),
    "c": "bool[4, 8]",
    "w": "f32[8]",
    "ids": "i32[4]",
    "labels": "i32[4]",
    "position": "i32[]",
}
"""The types of the names that examples use."""

OTHERS: dict[str, dict[str, str]] = {
    "logical_not": {"x": "bool[4]"},
    "logical_and": {"a": "bool[4]", "b": "bool[4]"},
    "logical_or": {"a": "bool[4]", "b": "bool[4]"},
    "matmul": {"a": "f32[8, 8]", "b": "f32[8, 8]"},
    "linear": {"w": "f32[3, 8]", "b": "f32[3]"},
    "einsum": {"a": "f32[2, 3, 4, 5]", "b": "f32[2, 3, 6, 5]"},
    "layer_norm": {"b": "f32[8]"},
    "group_norm": {"x": "f32[2, 16, 3]", "w": "f32[16]", "b": "f32[16]"},
    "batch_norm": {"x": "f32[2, 8]", "b": "f32[8]", "mean": "f32[8]", "var": "f32[8]"},
    "instance_norm": {"x": "f32[2, 8, 3]", "b": "f32[8]"},
    **{
        f"{name}{axes}d": {
            "x": f"f32[2, 8, {size}]",
            "w": f"f32[8, 8, {', '.join(['3'] * axes)}]",
            "b": "f32[8]",
        }
        for axes, size in ((1, "9"), (2, "9, 8"), (3, "4, 5, 6"))
        for name in ("conv", "conv_transpose", "max_pool", "avg_pool")
    },
    "convolution": {"x": "f32[2, 8, 9, 8]", "w": "f32[8, 8, 3, 3]"},
    **{
        name: {"x": "f32[2, 8, 4, 6]"}
        for name in (
            *("global_avg_pool", "global_max_pool", "adaptive_avg_pool2d", "adaptive_max_pool2d"),
            *("upsample", "pixel_shuffle", "pixel_unshuffle"),
        )
    },
    "attention": {"q": "f32[5, 36]", "k": "f32[6, 12]", "v": "f32[6, 12]"},
    "attention_lse": {"q": "f32[5, 64]", "k": "f32[6, 64]"},
    **{
        name: {
            **dict.fromkeys(("q", "g"), "f32[5, 64]"),
            **dict.fromkeys(("k", "v"), "f32[6, 64]"),
            **dict.fromkeys(("lse", "own"), "f32[5, 8]"),
        }
        for name in ("attention_query_gradient", "attention_key_gradient")
    },
    "attention_parts": {"q": "f32[5, 64]", "k": "f32[6, 64]", "v": "f32[6, 64]"},
    **{
        name: {
            "x": "f32[3, 2, 5]",
            "w": f"f32[{gates * 4}, 5]",
            "r": f"f32[{gates * 4}, 4]",
            "b": f"f32[{gates * 4}]",
            **dict.fromkeys(("h0", "c0"), "f32[2, 4]"),
        }
        for name, gates in (("lstm", 4), ("gru", 3), ("rnn", 1))
    },
    "recurrence": {
        "given": "f32[3, 2, 16]",
        "r": "f32[1, 4, 16]",
        **dict.fromkeys(("h0", "c0"), "f32[1, 2, 4]"),
    },
    "rope": {"x": "f32[4, 128]"},
    "embedding": {"table": "f32[10, 4]"},
    "take_along_axis": {"ids": "i32[4, 2]"},
    "running_sum_in_parts": {"before": "f32[4, 4]"},
    "running_product_in_parts": {"before": "f32[4, 4]"},
    "philox": dict.fromkeys(("c0", "c1", "c2", "c3", "k0", "k1"), "u32[4]"),
    "scatter_runs": {"bounds": "i32[5, 1]", "order": "i32[4, 1]", "src": "f32[4, 8]"},
    "part_totals": {"ids": "i32[4, 1]", "order": "i32[4, 1]", "src": "f32[4, 8]"},
    "scatter_runs_in_parts": {
        "bounds": "i32[5, 1]",
        "order": "i32[4, 1]",
        "src": "f32[4, 8]",
        "totals": "f32[2, 8]",
    },
    "scatter_along_in_parts": {
        "ids": "i32[4, 1]",
        "src": "f32[4, 8]",
        "totals": "f32[2, 8]",
    },
    "bucket_totals": {"ids": "i32[4, 8]", "src": "f32[4, 8]"},
    "scatter_in_buckets": {"ids": "i32[4, 8]", "src": "f32[4, 8]", "totals": "f32[512, 8]"},
    "scatter_along": {"ids": "i32[4, 1]", "src": "f32[4, 8]"},
    "scatter_add": {"src": "f32[4, 8]"},
    "scatter": {"src": "f32[4, 8]"},
    "dynamic_update_slice": {"cache": "f32[6, 8]", "row": "f32[1, 8]"},
    "digit_counts": {"keys": "f32[4, 64]"},
    "place_digits": {"keys": "i32[4, 64]", "payload": "f32[4, 64]", "sums": "i32[4, 256, 1]"},
    "sort_digits": {"keys": "f32[4, 8]", "payload": "i32[4, 8]"},
    "sort_runs": {"keys": "f32[4, 8]", "payload": "i32[4, 8]"},
    "broadcast_to": {"x": "f32[8]"},
    "squeeze": {"x": "f32[1, 4]"},
}
"""Types that differ, by operation."""


def examples_of(name: str) -> list[str]:
    """The statements in the first sentence of an operation's summary."""
    first = OPERATIONS[name].summary.partition("`: ")[0] + "`"
    return [
        text if " = " in text.split("(")[0] else f"y = {text}"
        for text in re.findall(r"`([^`]*)`", first)
    ]


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_the_example_of_a_summary_is_a_call_of_the_operation(name: str) -> None:
    types = INPUTS | OTHERS.get(name, {})
    examples = examples_of(name)
    assert examples
    for statement in examples:
        used = set(re.findall(r"\b[a-z]+[0-9]?\b", statement.partition("=")[2]))
        head = ", ".join(f"{key}: {types[key]}" for key in types if key in used)
        results = statement.partition(" = ")[0]
        module = mgn.parse(f"graph g({head}) {{\n{statement}\nreturn {results}\n}}").lower()
        assert f"mgn.{name}" in [op.name for op in module.walk()]
