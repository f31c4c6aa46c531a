"""What language models have besides square products: one row, wide vocabularies, shared heads.

See `benchmarks.contests.cases`.
"""

from typing import Any

import numpy as np

from benchmarks.contests.cases import STORED, Case, rounding, split_heads, stored_bytes, suffix


def grouped_attention(
    batch: int,
    heads: tuple[int, int],
    rows: int,
    keys: int,
    size: int,
    precision: str = "f32",
) -> Case:
    """Causal attention of `heads[0]` heads that share the keys of `heads[1]`, of one query or of as
    many as keys: PyTorch's mask of others begins with the first key.

    As many scores are counted as there are keys that a query sees.
    """
    assert rows in (1, keys), "one query, or as many as keys"
    of_queries, of_keys = heads
    stored, rounded = STORED[precision], rounding(precision)
    query, key = (batch, rows, of_queries * size), (batch, keys, of_keys * size)
    seen = rows * keys - rows * (rows - 1) // 2
    read = batch * size * (2 * rows * of_queries + 2 * keys * of_keys)

    def in_torch(torch: Any, q: Any, k: Any, v: Any) -> Any:
        parts = (split_heads(q, of_queries), split_heads(k, of_keys), split_heads(v, of_keys))
        found = torch.nn.functional.scaled_dot_product_attention(
            *(part.transpose(1, 2) for part in parts), is_causal=rows == keys, enable_gqa=True
        )
        return found.transpose(1, 2)

    return Case(
        f"attention {batch}x{of_queries}/{of_keys}x{rows}/{keys}x{size}{suffix(precision)}",
        f"graph g(q: {stored}{list(query)}, k: {stored}{list(key)}, v: {stored}{list(key)}) "
        f"{{ return y = attention(q, k, v, heads = {of_queries}, kv_heads = {of_keys}, "
        "causal = true) }",
        {"q": query, "k": key, "v": key},
        lambda q, k, v: _attended(*(rounded(x) for x in (q, k, v)), heads, size),
        in_torch,
        stored_bytes(stored) * read,
        4 * batch * of_queries * seen * size,
        "copy" if rows == 1 else "matmul",
        precision=precision,
    )


def _attended(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: tuple[int, int], size: int
) -> np.ndarray:
    """One head after the other: all scores at once take gigabytes."""
    found = np.empty(q.shape, q.dtype)
    rows, keys = q.shape[1], k.shape[1]
    hidden = np.triu(np.ones((rows, keys), bool), keys - rows + 1)
    for item in range(q.shape[0]):
        for head in range(heads[0]):
            own = slice(head * size, (head + 1) * size)
            of_key = head // (heads[0] // heads[1])
            shared = slice(of_key * size, (of_key + 1) * size)
            scores = q[item, :, own] @ k[item, :, shared].T * size**-0.5
            scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            found[item, :, own] = weights @ v[item, :, shared] / weights.sum(-1, keepdims=True)
    return found


def argmax(rows: int, columns: int) -> Case:
    """The first of the largest elements of each row."""
    return Case(
        f"argmax {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}]) {{ return y = argmax(x, axis = -1) }}",
        {"x": (rows, columns)},
        lambda x: x.argmax(-1),
        lambda torch, x: x.argmax(-1),
        4 * rows * (columns + 1),
        rows * columns,
        "copy",
        ("x",),
    )


def log_softmax(rows: int, columns: int) -> Case:
    """The logarithms of a softmax over rows."""
    return Case(
        f"log_softmax {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}]) {{ return y = log_softmax(x) }}",
        {"x": (rows, columns)},
        _log_softmax,
        lambda torch, x: x.log_softmax(-1),
        2 * 4 * rows * columns,
        5 * rows * columns,
        "copy",
        ("x",),
    )


def _log_softmax(x: np.ndarray) -> np.ndarray:
    moved = x - x.max(-1, keepdims=True)
    return moved - np.log(np.exp(moved).sum(-1, keepdims=True))


def column_mean(rows: int, columns: int) -> Case:
    """The mean of each column."""
    return Case(
        f"mean over rows {rows}x{columns}",
        f"graph g(x: f32[{rows}, {columns}]) {{ return y = mean(x, axis = 0) }}",
        {"x": (rows, columns)},
        lambda x: x.mean(0),
        lambda torch, x: x.mean(0),
        4 * (rows + 1) * columns,
        rows * columns,
        "copy",
    )
