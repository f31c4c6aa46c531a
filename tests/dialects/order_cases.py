"""Cases of what is written at ids and starts, of what is put in order, and of scans."""

import numpy as np

from tests.dialects.case import Source, case
from tests.dialects.case_references import scattered, with_part


def ROWS(s: Source) -> tuple[np.ndarray, ...]:
    return (s.f(2, 3, 5),)


SUMS = np.bincount([3, 1, 2, 1], minlength=256).astype(np.int32).reshape(1, 256, 1)
"""How often each digit occurs in the one part of 3, 1, 2, 1."""


def counted(keys: np.ndarray, shift: int, part: int) -> np.ndarray:
    """How often each digit of eight bits occurs in each part of a row."""
    digits = keys >> shift & 255
    cuts = [digits[:, n : n + part] for n in range(0, keys.shape[1], part)]
    return np.stack([(cut[:, None] == np.arange(256)[:, None]).sum(-1) for cut in cuts], -1)


def largest(x: np.ndarray, ids: np.ndarray, src: np.ndarray, combine: str) -> np.ndarray:
    """The largest of each row of x and the rows whose ids name it."""
    found = np.array(x)
    for place, row in zip(ids[:, 0].clip(0, len(x) - 1), src, strict=True):
        found[place] = np.maximum(found[place], row)
    return found


WRITTEN = (
    case(
        "run_bounds",
        lambda s: (np.sort(s.i(2, 9, low=-1, high=6)), 4),
        lambda ids, places, axis: (ids[:, None] < np.arange(5)[None, :, None]).sum(-1),
        axis=1,
    ),
    case(
        "scatter_runs",
        lambda s: (
            s.f(3, 2),
            np.int32([[0], [2], [2], [4]]),
            np.int32([[3], [1], [0], [2]]),
            s.f(4, 2),
        ),
        lambda x, bounds, order, src: scattered(x, np.array([2, 0, 2, 0]), src, 0, True),
    ),
    case(
        "part_totals",
        lambda s: (np.int32([0, 0, 1, 3, 4, 4, 4]), np.int32([2, 0, 1, 6, 3, 5, 4]), s.f(7)),
        lambda ids, order, src, **_: np.array([src[2] + src[0], 0, src[3] + src[5]]),
        part=2,
    ),
    case(
        "part_totals",
        lambda s: (np.int32([[2], [2], [2]]), np.int32([[1], [2], [0]]), s.f(3, 2)),
        lambda ids, order, src, **_: src.max(0)[None],
        part=3,
        combine="max",
    ),
    case(
        "scatter_runs_in_parts",
        lambda s: (
            s.f(3, 2),
            np.int32([[0], [1], [1], [8]]),
            np.int32([[3], [1], [0], [2], [4], [5], [6], [7]]),
            s.f(8, 2),
            s.f(4, 2),
        ),
        lambda x, bounds, order, src, totals, **_: (
            x + np.stack([src[3], 0 * src[0], src[1] + totals[1:].sum(0)])
        ),
        part=2,
    ),
    case(
        "scatter_along_in_parts",
        lambda s: (
            s.f(4, 3),
            np.int32([[0], [0], [1], [3], [3]]),
            np.tile(s.f(5, 1), (1, 3)),
            np.zeros((0, 3)),
        ),
        lambda x, ids, src, *_, **how: scattered(x, ids[:, 0], src, 0, True),
        part=6,
    ),
    case(
        "bucket_totals",
        lambda s: (np.int32([0, 1, 1, 2, 3, 2, 6, 9, 9, 10]), s.f(10)),
        lambda ids, src, **_: np.array([src[0], src[1] + src[2], src[3] + src[5], src[4], 0, 0]),
        bits=1,
        part=3,
    ),
    case(
        "scatter_in_buckets",
        lambda s: (s.f(4), np.int32([1, 0, 0, 3, 2]), s.f(5), s.f(4)),
        lambda x, ids, src, *_, **how: scattered(x, ids, src, 0, True),
        bits=1,
        part=2,
    ),
    case(
        "dynamic_update_slice",
        lambda s: (s.f(4, 5), s.f(2, 3), [1, 9]),
        lambda x, src, _: with_part(x, src, (1, 2)),
    ),
    case(
        "scatter_along",
        lambda s: (s.f(4, 3), s.i(5, 1, low=-1, high=6), s.f(5, 3)),
        lambda x, ids, src: scattered(x, ids[:, 0], src, 0, True),
    ),
    case(
        "scatter_along",
        lambda s: (s.f(4, 3), s.i(5, 1, low=-1, high=6), s.f(5, 3)),
        largest,
        combine="max",
    ),
    case(
        "scatter_add",
        lambda s: (s.f(2, 4, 3), s.i(3, 2, low=-1, high=6), s.f(2, 3, 2, 3)),
        lambda x, ids, src, axis: scattered(x, ids, src, axis, True),
        axis=1,
    ),
    case(
        "scatter_add",
        lambda s: (s.f(4, 5), s.i(3, 7, low=-1, high=6), s.f(3, 7)),
        lambda x, ids, src, axis: scattered(x, ids, src, 1, True),
        axis=-1,
    ),
    case(
        "scatter",
        lambda s: (s.f(5, 3), s.i(7, low=-1, high=6), s.f(7, 3)),
        lambda x, ids, src: scattered(x, ids, src, 0, False),
    ),
    case(
        "scatter",
        lambda s: (s.f(2, 6), s.i(2, 9, low=-1, high=7), s.f(2, 9)),
        lambda x, ids, src, axis: scattered(x, ids, src, 1, False),
        axis=1,
    ),
)

ORDER = (
    case("sort", ROWS, lambda x: np.sort(x, -1)),
    case(
        "sort",
        lambda s: (s.f(9, 2),),
        lambda x, axis, descending: -np.sort(-x, 0),
        axis=0,
        descending=True,
    ),
    case("argsort", lambda s: (s.i(3, 40),), lambda x: np.argsort(x, -1, kind="stable")),
    case(
        "argsort",
        lambda s: (s.i(40, 3),),
        lambda x, axis, descending: np.argsort(-x, 0, kind="stable"),
        axis=-2,
        descending=True,
    ),
    case(
        "sort_runs",
        lambda s: (s.f(2, 12), s.i(2, 12)),
        lambda x, p, run: np.concatenate(
            [
                np.take_along_axis(p[:, n : n + 5], np.argsort(x[:, n : n + 5], -1), -1)
                for n in (0, 5, 10)
            ],
            -1,
        ),
        run=5,
    ),
    case(
        "digit_counts",
        lambda s: (s.i(2, 9, low=-600, high=600),),
        lambda x, shift, part: counted(x.astype(np.int64) + (1 << 31), shift, part),
        shift=8,
        part=4,
    ),
    case(
        "digit_counts",
        lambda s: (np.int32([[3, 1, 2, 1, 7], [0, 0, 4, 9, 8]]),),
        lambda x, part, with_falls: np.concatenate(
            [counted(x, 0, part), [[[1, 1, 0]], [[0, 0, 1]]]], axis=1
        ),
        part=2,
        with_falls=True,
    ),
    case(
        "digit_counts",
        lambda s: (np.int32([[3, 1, 2], [4, 0, 4]]), np.int32([2, 1])),
        lambda x, falls, part: counted(x, 0, part),
        part=2,
    ),
    case(
        "sort_digits",
        lambda s: (s.i(3, 9, low=0, high=600), s.f(3, 9)),
        lambda x, p, shift: np.take_along_axis(p, np.argsort(x >> 4, -1, kind="stable"), -1),
        shift=4,
    ),
    case(
        "place_digits",
        lambda s: (np.int32([[3, 1, 2, 1]]), s.f(1, 4), SUMS),
        lambda x, p, sums, part: p[:, [1, 3, 2, 0]],
        part=4,
    ),
    case(
        "place_digits",
        lambda s: (np.int32([[3, 1, 2, 1]]), s.f(1, 4), SUMS, np.int32([2])),
        lambda x, p, sums, falls, part: p[:, [1, 3, 2, 0]],
        part=4,
    ),
    case(
        "topk",
        lambda s: (s.f(3, 9), 4),
        lambda x, k: (-np.sort(-x, -1)[:, :k], np.argsort(-x, -1, kind="stable")[:, :k]),
    ),
)

SCANS = (
    case(
        "block_sums",
        lambda s: (s.f(5, 3, 2),),
        lambda x, rows, leading: np.add.reduceat(x.reshape(15, 2), range(0, 15, rows), 0),
        rows=4,
        leading=2,
    ),
    case("running_product", ROWS, lambda x, axis: np.cumprod(x, axis), axis=1),
    case(
        "running_sum_in_parts",
        lambda s: (s.f(2, 5), s.f(2, 3)),
        lambda x, p, part: np.concatenate(
            [np.cumsum(x[:, n : n + 2], 1) + p[:, n // 2, None] for n in (0, 2, 4)], 1
        ),
        part=2,
    ),
    case(
        "running_product_in_parts",
        lambda s: (s.f(4, 2), s.f(2, 2)),
        lambda x, p, axis, part: np.concatenate(
            [np.cumprod(x[:3], 0) * p[0], np.cumprod(x[3:], 0) * p[1]]
        ),
        axis=0,
        part=3,
    ),
    case("cumprod", ROWS, lambda x, axis: np.cumprod(x, axis), axis=-2),
    case("cumprod", ROWS, lambda x: np.cumprod(x)),
)
