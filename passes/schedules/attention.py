"""The schedules of an attention: on a matrix unit, in tiles of local memory, in a CPU's blocks."""

from enum import StrEnum

from xdsl.utils.exceptions import VerifyException

from mgn.passes.kernels.attention import AttentionSizes, heads_too_large
from mgn.passes.schedules.attention_blocks import attention_blocking
from mgn.passes.schedules.attention_matrix import matrix_attention_tilings
from mgn.passes.schedules.attention_tiles import attention_tilings
from mgn.passes.schedules.schedule import Request, Schedule, Schedules


class AttentionVariant(StrEnum):
    """A variant of the attention template."""

    ZEROS = "without keys"
    MATRIX = "matrix tiles"
    TILES = "tiles"
    BLOCKS = "blocks"


def attention_schedules(request: Request) -> Schedules:
    """The admissible schedules of an attention, the preferred one first. VerifyException where its
    heads are too large for all.
    """
    attention = AttentionSizes.of_body(request.body)
    if attention.in_parts and not request.is_gpu:
        raise VerifyException("fusion.kernel attention: parts of keys are looked at on a GPU only")
    facts = request.facts("form", "lanes", "sub_group", "matrix")
    if not attention.keys:
        return [Schedule(AttentionVariant.ZEROS, {}, facts | request.facts("local"))]
    unit = request.word("matrix")
    found = matrix_attention_tilings(request, attention, unit) if unit else []
    if found:
        return [
            Schedule(AttentionVariant.MATRIX, tiling.entries, facts, time) for time, tiling in found
        ]
    if not request.is_gpu:
        blocking = attention_blocking(request, attention)
        return [Schedule(AttentionVariant.BLOCKS, blocking.entries, facts)]
    tiles = attention_tilings(request, attention)
    if not tiles:
        raise heads_too_large(attention)
    return [Schedule(AttentionVariant.TILES, tiling.entries, facts, time) for time, tiling in tiles]
