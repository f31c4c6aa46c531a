"""Which schedules of a kernel are worth a measurement.

In: a fused kernel with the schedule that was chosen for it. Out: a walk over others, told each time
whether the last was the best yet: it changes one axis of the best at a time until no change helps.
"""

from collections.abc import Generator, Mapping, Sequence

from mgn.dialects.fusion import FusedKernelOp, KernelKind, ScheduleAttr
from mgn.passes.lower_kernels.tensor_tiling import COPIED_SHAPES, GROUP_SHAPES
from mgn.passes.lower_kernels.tensor_tiling import SHAPES as UNIT_SHAPES
from mgn.passes.lower_kernels.tiling import SHAPES

Entries = Mapping[str, int | str]
Axis = Sequence[Entries]
"""Entries that are alternatives to each other."""


def _choices(name: str, *values: int) -> Axis:
    return [{name: value} for value in values]


_LANES = _choices("lanes", 1, 2, 4, 8, 16)
_CHUNK = _choices("chunk", 512, 1024, 2048, 4096, 8192, 16384, 32768)
_GROUP = _choices("local", 64, 128, 256, 512, 1024)

_TILINGS: Axis = [
    {
        "tile_down": shape.down,
        "tile_across": shape.across,
        "item_rows": shape.rows,
        "item_columns": shape.columns,
        "block_depth": shape.depth,
        "slices": shape.slices,
    }
    for shape in SHAPES
]

_UNIT_TILINGS: Axis = [
    {
        "tile_down": shape.down,
        "tile_across": shape.across,
        "item_rows": shape.rows,
        "item_columns": shape.columns,
        "slices": shape.slices,
        "chunks": shape.chunks,
        "stages": shape.stages,
        "groups": int(shape not in UNIT_SHAPES),
    }
    for shape in (*UNIT_SHAPES, *GROUP_SHAPES, *COPIED_SHAPES)
]

UNIT_AXES: Sequence[Axis] = (_UNIT_TILINGS, _choices("strip", 2, 4, 8, 16))
"""What may be changed of products on a matrix unit."""

_CPU_PRODUCT: Sequence[Axis] = (
    [
        {"tile_rows": rows, "tile_vectors": vectors}
        for rows, vectors in ((4, 2), (4, 4), (6, 2), (8, 1), (8, 2), (8, 3), (12, 2), (14, 2))
    ],
    _choices("block_rows", 32, 64, 128, 256),
    _choices("block_columns", 32, 64, 128, 256),
    _choices("block_depth", 128, 256, 512, 1024),
    _choices("lanes", 8, 16),
)

AXES: Mapping[tuple[str, KernelKind], Sequence[Axis]] = {
    ("cpu", KernelKind.POINTWISE): (_CHUNK, _LANES),
    ("cpu", KernelKind.GATHER): (_CHUNK, _LANES),
    ("cpu", KernelKind.REDUCTION): (_CHUNK, _LANES, _choices("stash", 0, 8192, 65536)),
    ("cpu", KernelKind.CONTRACTION): _CPU_PRODUCT,
    ("gpu", KernelKind.POINTWISE): (_GROUP, _choices("lanes", 1, 2, 4, 8)),
    ("gpu", KernelKind.GATHER): (_GROUP, _choices("lanes", 1, 2, 4, 8)),
    ("gpu", KernelKind.REDUCTION): (_GROUP, _choices("lanes", 1, 2, 4)),
    ("gpu", KernelKind.CONTRACTION): (_TILINGS, _GROUP),
}
"""What may be changed of a form's schedule, by kind of kernel; other kinds are left as they are."""


def axes_of(fused: FusedKernelOp) -> Sequence[Axis]:
    """The axes of a scheduled kernel's space."""
    assert fused.schedule is not None
    if "matrix" in fused.schedule.values:
        return UNIT_AXES
    return AXES.get((str(fused.schedule.values.get("form")), fused.kernel_kind), ())


def walk_space(
    start: ScheduleAttr, axes: Sequence[Axis]
) -> Generator[ScheduleAttr, bool | None, None]:
    """Schedules to try, each once; `send` whether the last one is the best yet."""
    best = dict(start.values)
    seen = {start}
    improved = True
    while improved:
        improved = False
        for axis in axes:
            for entries in axis:
                candidate = ScheduleAttr.of(**{**best, **entries})
                if candidate in seen:
                    continue
                seen.add(candidate)
                if (yield candidate):
                    best, improved = dict(candidate.values), True
