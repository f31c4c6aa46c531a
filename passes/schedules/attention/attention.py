"""The schedules of an attention: on a matrix unit, in tiles of local memory, in a CPU's blocks."""

from enum import StrEnum

from xdsl.utils.exceptions import VerifyException

from mgn.passes.kernels.attention import AttentionSizes, heads_too_large
from mgn.passes.schedules.attention.blocks import Blocking, attention_blocking, block_seconds
from mgn.passes.schedules.attention.matrix import MatrixTiling, matrix_attention_tilings
from mgn.passes.schedules.attention.seconds import TILE_LATENCY, UNIT_LATENCY, Scores, score_seconds
from mgn.passes.schedules.attention.tiles import Tiling, attention_tilings
from mgn.passes.schedules.core.schedule import Request, Schedule, Schedules

FACTS = ("form", "lanes", "sub_group", "matrix")
"""What templates read of a request."""


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
    if not attention.keys:
        passes = (1.0,) * len(attention.node.operands)
        facts = request.facts(*FACTS, "local")
        return [Schedule(AttentionVariant.ZEROS, {}, facts, 0.0, passes)]
    unit = request.word("matrix")
    found = matrix_attention_tilings(request, attention, unit) if unit else []
    if found:
        return [
            _scheduled(request, attention, tiling, AttentionVariant.MATRIX, UNIT_LATENCY + seconds)
            for seconds, tiling in found
        ]
    if not request.is_gpu:
        sizes = attention_blocking(request, attention)
        seconds = block_seconds(request, attention, sizes)
        return [_scheduled(request, attention, sizes, AttentionVariant.BLOCKS, seconds)]
    tiles = attention_tilings(request, attention)
    if not tiles:
        raise heads_too_large(attention)
    return [
        _scheduled(request, attention, tiling, AttentionVariant.TILES, TILE_LATENCY + seconds)
        for seconds, tiling in tiles
    ]


def _scheduled(
    request: Request,
    attention: AttentionSizes,
    sizes: Tiling | MatrixTiling | Blocking,
    variant: AttentionVariant,
    seconds: float,
) -> Schedule:
    """A schedule of some sizes; what is computed on the way waits as long as the products do."""
    unit = request.word("matrix") if variant is AttentionVariant.MATRIX else ""
    scores = Scores.of(attention, *sizes.group)
    busy = scores.mean * scores.groups * score_seconds(attention, request.device, unit)
    stretch = max(seconds / busy, 1.0) if busy else 1.0
    passes = scores.passes(attention, stretch)
    return Schedule(variant, sizes.entries, request.facts(*FACTS), seconds, passes)
