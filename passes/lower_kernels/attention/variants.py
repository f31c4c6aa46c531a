"""The attention template: softmax(q·kᵀ)·v in one kernel, without the scores in memory.

A work-item (CPU, rows.py) or a work-group (GPU, tiles.py; on a matrix unit,
matrix.py or groups.py) takes a block of the queries of a key head and walks
over blocks of keys. It keeps each row's largest score so far, the sum of its powers and the sum of
weighted values; a larger score scales down what was summed before (M. Milakov, N. Gimelshein,
arXiv:1805.02867; T. Dao et al., FlashAttention, arXiv:2205.14135). Blocks of keys that no query of
the block sees are not visited. What comes before attention is evaluated as operands are copied into
local memory, what follows on finished rows.
"""

import math as numbers
from functools import partial
from math import prod

from mgn.dialects import kernel
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.index import delinearised
from mgn.passes.lower_kernels.attention.groups import GroupAttention
from mgn.passes.lower_kernels.attention.matrix import MatrixAttention
from mgn.passes.lower_kernels.attention.node import Attention, has_totals
from mgn.passes.lower_kernels.attention.rows import lower_rows
from mgn.passes.lower_kernels.attention.tiles import lower_attention_tiles
from mgn.passes.lower_kernels.core.pure_code import memory_type
from mgn.passes.lower_kernels.core.template import Job, Launch
from mgn.passes.schedules.attention.attention import AttentionVariant
from mgn.passes.schedules.attention.matrix import MatrixTiling


def lower_attention(job: Job) -> Launch:
    """Writes an attention kernel."""
    attention = Attention.of_body(job.body)
    match job.variant(AttentionVariant):
        case AttentionVariant.ZEROS:
            return _without_keys(job, attention)
        case AttentionVariant.MATRIX:
            unit = str(job.schedule["matrix"])
            tiling = MatrixTiling.of(job.schedule, attention, unit)
            template = GroupAttention if tiling.groups else MatrixAttention
            return template(job, attention, unit, tiling).write()
        case AttentionVariant.TILES:
            return lower_attention_tiles(job, attention)
        case AttentionVariant.BLOCKS:
            return lower_rows(job, attention)


def _without_keys(job: Job, attention: Attention) -> Launch:
    """Where there is no key, sums of values are 0."""
    code = job.code
    shape = (*attention.batch, attention.kv_heads, attention.rows, attention.width)
    count = prod(shape)
    local = job.number("local", 1) if job.is_gpu else 1
    items = ceil_div(count, local) * local
    item = code.counter(kernel.GlobalIdOp, 0, items)
    zero = code.constant(0, memory_type(attention.element))

    def one() -> None:
        place = code.known(item, count)
        *batch, head, row, column = delinearised(place, shape)
        attention.write(job, tuple(batch), head, row, column, zero)
        if has_totals(job):
            nothing = code.constant(-numbers.inf, memory_type(attention.element))
            put = partial(attention.write_totals, job, tuple(batch), head, row, nothing, zero, 0.0)
            code.when(code.is_below(column, 1, 1), put)

    code.when(code.is_below(item, count, 1), one)
    return Launch((items,), (local,))
