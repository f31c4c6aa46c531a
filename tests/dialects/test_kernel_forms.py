"""Which bodies `fusion.kernel` accepts for each kind, and what it says of the others."""

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.utils.exceptions import VerifyException

from tests.support.lower_fixture import fused_kernel

X = ("f32", (4, 6))
GRADIENT = [("f32", shape) for shape in [(3, 4), (5, 4), (5, 4), (3, 4), (3, 2), (3, 2)]]
Build = Callable[..., Any]


def in_order(b: Any, keys: Any, *values: Any) -> list[Any]:
    return [b.abs(b.sort_runs(keys, value)) for value in values]


def _parts(b: Any, both: Any) -> tuple[Any, Any]:
    return b.slice(both, [0, 0], [5, 4], [1, 1]), b.slice(both, [0, 4], [5, 8], [1, 1])


def _product_of_parts(b: Any, both: Any) -> Any:
    return b.mul(*_parts(b, both))


ACCEPTED: dict[str, tuple[str, list[Any], Build]] = {
    "a chain of elementwise and movement operations": (
        "pointwise",
        [X],
        lambda b, x: b.transpose(b.relu(x), [1, 0]),
    ),
    "two results of one shape": ("pointwise", [X], lambda b, x: [b.exp(x), b.silu(x)]),
    "softmax in its parts": (
        "reduction",
        [X],
        lambda b, x: b.div(b.exp(x), b.sum(b.exp(x), axis=1, keepdims=True)),
    ),
    "a residual sum and its mean": (
        "reduction",
        [X, X],
        lambda b, x, y: [b.add(x, y), b.mul(b.sum(b.add(x, y), axis=1), 0.25)],
    ),
    "all elements in another shape after a reduction": (
        "reduction",
        [X, ("f32", (2, 1, 1))],
        lambda b, x, y: b.relu(
            b.mul(b.reshape(b.sub(x, b.sum(x, axis=1, keepdims=True)), [2, 3, 4]), y)
        ),
    ),
    "a part of a tensor in memory": (
        "update",
        [X, ("f32", (1, 6)), ("i32", ())],
        lambda b, x, row, i: b.dynamic_update_slice(x, b.exp(row), [i, 0]),
    ),
    "both parts of a gradient, and what follows one": (
        "attention_gradient",
        GRADIENT,
        lambda b, *given: [
            f(part)
            for f, part in zip(
                (b.neg, lambda x: x),
                _parts(b, b.attention_key_gradient(*given, heads=2)),
                strict=True,
            )
        ],
    ),
    "an attention and the log-sum-exp of its scores": (
        "attention",
        [("bf16", (3, 4)), ("bf16", (5, 4))],
        lambda b, q, k: [
            b.neg(b.attention(q, k, k, heads=2)),
            b.attention_lse(b.cast(q, "f32"), b.cast(k, "f32"), heads=2),
        ],
    ),
    "a recurrence after something pointwise": (
        "recurrence",
        [("f32", (3, 2, 4)), ("f32", (1, 4, 4)), ("f32", (1, 2, 4))],
        lambda b, x, r, h: b.recurrence(b.neg(x), b.exp(r), [h], cell="rnn"),
    ),
    "a log-sum-exp of scores after something pointwise": (
        "attention_gradient",
        [("f32", (3, 4)), ("f32", (5, 4))],
        lambda b, q, k: b.attention_lse(b.neg(q), b.exp(k), heads=2),
    ),
    "two values in the order of the same keys": (
        "order",
        [X, ("i32", (4, 6))],
        lambda b, x, i: in_order(b, b.neg(x), x, i),
    ),
    "a scatter with an epilogue": (
        "scatter",
        [X, ("i32", (9, 1)), ("f32", (9, 6))],
        lambda b, x, i, s: b.relu(b.scatter_along(b.exp(x), i, s, axis=0)),
    ),
    "a scan with an epilogue": ("scan", [X], lambda b, x: b.relu(b.running_sum(x, axis=1))),
    "a matmul with prologue, bias and reshape": (
        "contraction",
        [X, ("f32", (6, 8)), ("f32", (8,))],
        lambda b, x, y, z: b.reshape(b.add(b.matmul(b.exp(x), y), z), [2, 2, 8]),
    ),
    "attention between a turn of the keys and a residual sum": (
        "attention",
        [("f32", (5, 8)), ("f32", (8, 7)), ("f32", (7, 8)), ("f32", (1, 5, 8))],
        lambda b, q, k, v, x: b.add(
            b.reshape(b.attention(q, b.transpose(b.neg(k), [1, 0]), v, heads=2), [1, 5, 8]), x
        ),
    ),
    "sums of blocks beside what is done with each row": (
        "row_blocks",
        [X],
        lambda b, x: [
            b.sub(x, b.max_reduce(x, axis=[1], keepdims=True)),
            b.sum(x, axis=[1]),
            b.block_sums(b.exp(x), rows=3),
            b.block_sums(x, rows=3),
        ],
    ),
    "sums of blocks by themselves": (
        "row_blocks",
        [("i32", (2, 3, 4))],
        lambda b, x: b.block_sums(x, rows=4, leading=2),
    ),
    "an embedding": ("gather", [("i32", (3,)), X], lambda b, i, t: b.gather(t, i, axis=0)),
}

REFUSED: dict[str, tuple[str, list[Any], Build, str]] = {
    "results of two shapes": (
        "pointwise",
        [X],
        lambda b, x: [b.exp(x), b.transpose(x, [1, 0])],
        "one shape",
    ),
    "a reduction in a pointwise kernel": (
        "pointwise",
        [X],
        lambda b, x: b.sum(x, axis=1),
        "mgn.sum cannot be part",
    ),
    "a composite that is not elementwise": (
        "pointwise",
        [X],
        lambda b, x: b.softmax(x),
        "mgn.softmax cannot be part",
    ),
    "something after a recurrence": (
        "recurrence",
        [("f32", (3, 2, 4)), ("f32", (1, 4, 4)), ("f32", (1, 2, 4))],
        lambda b, x, r, h: b.neg(b.recurrence(x, r, [h], cell="rnn")),
        "it writes what recurrence gives, and nothing else",
    ),
    "something after a log-sum-exp of scores": (
        "attention_gradient",
        [("f32", (3, 4)), ("f32", (5, 4))],
        lambda b, q, k: b.neg(b.attention_lse(q, k, heads=2)),
        "it writes what attention_lse gives, and nothing else",
    ),
    "a log-sum-exp of other scores": (
        "attention",
        [("f32", (3, 4)), ("f32", (5, 4))],
        lambda b, q, k: [b.attention(q, k, k, heads=2), b.attention_lse(q, k, heads=1)],
        "must be of the scores of its mgn.attention",
    ),
    "something after a log-sum-exp beside an attention": (
        "attention",
        [("f32", (3, 4)), ("f32", (5, 4))],
        lambda b, q, k: [b.attention(q, k, k, heads=2), b.neg(b.attention_lse(q, k, heads=2))],
        "is written as it is",
    ),
    "neither the keys nor the values of a gradient": (
        "attention_gradient",
        GRADIENT,
        lambda b, *given: b.slice(
            b.attention_key_gradient(*given, heads=2), [0, 0], [5, 3], [1, 1]
        ),
        "takes neither the keys nor the values",
    ),
    "keys and values of a gradient together again": (
        "attention_gradient",
        GRADIENT,
        lambda b, *given: _product_of_parts(b, b.attention_key_gradient(*given, heads=2)),
        "must be of the keys or of the values",
    ),
    "no reduction": ("reduction", [X], lambda b, x: b.exp(x), "needs a reduction"),
    "reductions over two axes": (
        "reduction",
        [X],
        lambda b, x: [b.sum(x, axis=1), b.sum(x, axis=0)],
        r"must reduce axes \[1\]",
    ),
    "a transpose after a reduction": (
        "reduction",
        [("f32", (4, 4))],
        lambda b, x: b.transpose(b.sub(x, b.sum(x, axis=1, keepdims=True)), [1, 0]),
        "mgn.transpose cannot follow",
    ),
    "a result outside the rows": (
        "reduction",
        [X],
        lambda b, x: b.add(b.sum(x, axis=1, keepdims=True), b.full([4, 3], 1.0)),
        "leaves the rows",
    ),
    "rows broadcast into another shape": (
        "reduction",
        [("f32", (4, 4))],
        lambda b, x: b.add(b.reshape(x, [2, 2, 4]), b.reshape(b.sum(x, axis=1), [1, 1, 4])),
        "leaves the rows",
    ),
    "elements in another shape, broadcast": (
        "reduction",
        [X, ("f32", (5, 24))],
        lambda b, x, y: b.add(b.reshape(b.mul(x, b.sum(x, axis=1, keepdims=True)), [24]), y),
        "leaves the rows",
    ),
    "two matmuls": (
        "contraction",
        [("f32", (4, 4))],
        lambda b, x: b.matmul(b.matmul(x, x), x),
        "exactly one contraction",
    ),
    "a result broadcast after the matmul": (
        "contraction",
        [("f32", (4, 4)), ("f32", (3, 4, 4))],
        lambda b, x, y: b.add(b.matmul(x, x), y),
        "changes the matmul's number of elements",
    ),
    "a transpose after the matmul": (
        "contraction",
        [("f32", (4, 4))],
        lambda b, x: b.transpose(b.matmul(x, x), [1, 0]),
        "mgn.transpose cannot follow",
    ),
    "a result beside the matmul": (
        "contraction",
        [("f32", (4, 4))],
        lambda b, x: [b.matmul(x, x), b.exp(x)],
        "must depend on the matmul",
    ),
    "two attentions": (
        "attention",
        [X],
        lambda b, x: b.attention(b.attention(x, x, x, heads=2), x, x, heads=2),
        "exactly one attention operation, not 2",
    ),
    "no sums of blocks": ("row_blocks", [X], lambda b, x: b.exp(x), "needs sums of blocks of rows"),
    "sums of other blocks": (
        "row_blocks",
        [X],
        lambda b, x: [b.block_sums(x, rows=2), b.block_sums(x, rows=3)],
        "of the same blocks of rows",
    ),
    "something after a sum of a block": (
        "row_blocks",
        [X],
        lambda b, x: b.neg(b.block_sums(x, rows=2)),
        "mgn.neg cannot follow a sum of a block",
    ),
    "rows that are not those of the blocks": (
        "row_blocks",
        [X],
        lambda b, x: [b.block_sums(x, rows=2), b.sum(x, axis=[0])],
        r"mgn.sum must reduce axes \[1\]",
    ),
    "rows without elements": (
        "row_blocks",
        [X],
        lambda b, x: b.block_sums(x, rows=2, leading=2),
        "its rows must have elements",
    ),
    "sums of blocks in half precision": (
        "row_blocks",
        [("f16", (4, 6))],
        lambda b, x: b.block_sums(x, rows=2),
        "as wide as its sums",
    ),
    "no attention": ("attention", [X], lambda b, x: b.exp(x), "exactly one attention .* not 0"),
    "a matmul before attention": (
        "attention",
        [("f32", (4, 4))],
        lambda b, x: b.attention(b.matmul(x, x), x, x, heads=2),
        "mgn.matmul cannot be part",
    ),
    "a norm before attention": (
        "attention",
        [("f32", (4, 4))],
        lambda b, x: b.attention(b.softmax(x), x, x, heads=2),
        "mgn.softmax cannot be part",
    ),
    "a transpose after attention": (
        "attention",
        [("f32", (4, 4))],
        lambda b, x: b.transpose(b.attention(x, x, x, heads=2), [1, 0]),
        "mgn.transpose cannot follow an attention",
    ),
    "a result broadcast after attention": (
        "attention",
        [("f32", (4, 4)), ("f32", (3, 4, 4))],
        lambda b, x, y: b.add(b.attention(x, x, x, heads=2), y),
        "changes the attention's number of elements",
    ),
    "a result beside attention": (
        "attention",
        [("f32", (4, 4))],
        lambda b, x: [b.attention(x, x, x, heads=2), b.exp(x)],
        "must depend on the attention",
    ),
    "attention in a kernel of another kind": (
        "contraction",
        [("f32", (4, 4))],
        lambda b, x: b.matmul(b.attention(x, x, x, heads=2), x),
        "mgn.attention cannot be part",
    ),
    "movement after a scan": (
        "scan",
        [X],
        lambda b, x: b.reshape(b.running_sum(x, axis=1), [24]),
        "cannot follow a scan",
    ),
    "an update of what is computed": (
        "update",
        [X, ("f32", (1, 6)), ("i32", ())],
        lambda b, x, row, i: b.dynamic_update_slice(b.exp(x), row, [i, 0]),
        "must be in memory, and read for nothing else",
    ),
    "an update by what is read of the same": (
        "update",
        [X, ("i32", ())],
        lambda b, x, i: b.dynamic_update_slice(x, b.slice(x, [0, 0], [1, 6]), [i, 0]),
        "must be in memory, and read for nothing else",
    ),
    "an update with an epilogue": (
        "update",
        [X, ("f32", (1, 6)), ("i32", ())],
        lambda b, x, row, i: b.exp(b.dynamic_update_slice(x, row, [i, 0])),
        "nothing else",
    ),
    "values in the orders of two keys": (
        "order",
        [X, X],
        lambda b, x, y: [b.sort_runs(x, y), b.sort_runs(y, y)],
        "the same keys in the same way",
    ),
    "movement after an order": (
        "order",
        [X],
        lambda b, x: b.transpose(b.sort_runs(x, x), [1, 0]),
        "cannot follow an? order",
    ),
    "a kind without a template": ("convolution", [X], lambda b, x: b.exp(x), "unknown kind"),
}


@pytest.mark.parametrize("case", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_legal_body_verifies(case: tuple[str, list[Any], Build]) -> None:
    kind, types, build = case
    assert fused_kernel(kind, types, build).kernel_kind == kind


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED.keys())
def test_another_body_is_an_error_that_names_the_reason(
    case: tuple[str, list[Any], Build, str],
) -> None:
    kind, types, build, reason = case
    with pytest.raises(VerifyException, match=reason):
        fused_kernel(kind, types, build)
