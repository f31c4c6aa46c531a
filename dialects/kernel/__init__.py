"""The `kernel` dialect: what one work-item does, next to arith, math, scf, memref and vector.

    kernel.func @f(%x : memref<64xf32>, …) access [read, …] global [64, 1, 1] local [16, 1, 1] { … }
    kernel.return                         the end of a kernel

    kernel.global_id 0   local_id   group_id   global_size   local_size   num_groups    : index
    kernel.local_alloc : memref<256xf32, #kernel.space<local>>    memory of the work-group
    kernel.barrier                        all work-items of the group meet
    kernel.await_stages                   a stage of a resident launch waits for those before it
    kernel.async_copy %x[%i], %m[%j] count 256 : …, …    global → local, gives a !kernel.event
    kernel.async_wait %e, …               the copies are complete
    kernel.prefetch %x[%i] level 1 : …    a hint: the element's cache line is needed soon

    kernel.from_elements %a, %b : vector<2xf32>
    kernel.cmpf oge, %a, %b : vector<16xf32>    cmpi slt, %a, %b : …      : vector<16xi1>
    kernel.select %mask, %a, %b : vector<16xf32>
    kernel.cast sitofp %x : vector<4xi32> -> vector<4xf32>    the casts of arith, on vectors
    kernel.remf %a, %b : vector<4xf32>    the remainder with the dividend's sign
    kernel.gather %x[%indices] : memref<…>, vector<16xi32> -> vector<16xf32>

    kernel.sub_group_size   sub_group_id   sub_group_lane                               : index
    kernel.sub_group_reduce add|max|min %x : f32
    kernel.sub_group_shuffle %x, %lane : f32      sub_group_broadcast %x, %lane : f32

    kernel.count_in_order %m[%i] bits 8 : memref<…>    the sub-group's work-items, one by one
    kernel.add_in_order %v, %m[%i] marks %k turn %t : …, …

    kernel.copy_chunk %x[%i], %m[%j] count 8 [valid %n] : …, …    one work-item's own copy
    kernel.commit_copies                  wait_copies 2: all but the last two groups have arrived
    kernel.load_matrix [transposed] %m[%i] : memref<…, #kernel.space<local>> -> vector<4xi32>
    kernel.mma m16n8k16_bf16 %a, %b, %c : vector<4xi32>, vector<2xi32>, vector<4xf32>
    kernel.round_tf32 %x : vector<4xf32>
    kernel.pack %x : vector<8xbf16> -> vector<4xi32>    unpack: the other way
    kernel.group_mma %m[%i, %j] steps 4 parts [0, 0] adds %a, … : …    tiles in local memory
    kernel.group_mma_held %f, %g times %m[%j] part 0 adds %a, … : …    rows that are held
    %d:2 = kernel.wait_products 0 of %a, %b : …     the sums of products that are complete
    kernel.publish_copies                 the matrix unit sees what was written, after a barrier

    vector.load %x[%i] {alignment = 16 : i64} : …    the vector lies at a multiple of 16 bytes
    scf.for … { … } {unroll = 8 : i64}    the device's compiler is asked for 8 steps at a time

Buffers are flat 1-D memrefs: global arguments, `#kernel.space<local>` from `kernel.local_alloc`,
`#kernel.space<private>` from `memref.alloca`. Vectors have 2, 4, 8 or 16 lanes. Integers are
signless: u8 is i8 with unsigned operations. `#kernel.device` describes a device (device.py).
"""

from xdsl.ir import Dialect

from mgn.dialects.kernel.adding import AddInOrderOp
from mgn.dialects.kernel.casts import SCALAR_CASTS, CastOp, convert
from mgn.dialects.kernel.combining import CombineAtOp
from mgn.dialects.kernel.counts import CountInOrderOp, CountOp
from mgn.dialects.kernel.device import DEVICES, Device, DeviceAttr
from mgn.dialects.kernel.function import FuncOp, ReturnOp
from mgn.dialects.kernel.group_units import (
    GROUP_BYTES,
    GROUP_ITEMS,
    GROUP_ROWS,
    GroupMmaHeldOp,
    GroupMmaOp,
    PublishCopiesOp,
    WaitProductsOp,
)
from mgn.dialects.kernel.index_width import needs_wide_index
from mgn.dialects.kernel.masks import (
    CompareFloatsOp,
    CompareIntegersOp,
    SelectOp,
    compare_floats,
    compare_integers,
    select,
)
from mgn.dialects.kernel.matrix_units import (
    MMA_SHAPES,
    CommitCopiesOp,
    CopyChunkOp,
    LoadMatrixOp,
    MmaOp,
    PackOp,
    RoundTf32Op,
    UnpackOp,
    WaitCopiesOp,
)
from mgn.dialects.kernel.remainder import RemainderOp
from mgn.dialects.kernel.sub_groups import (
    SubGroupBroadcastOp,
    SubGroupIdOp,
    SubGroupLaneOp,
    SubGroupReduceOp,
    SubGroupShuffleOp,
    SubGroupSizeOp,
)
from mgn.dialects.kernel.types import (
    VECTOR_LANES,
    Access,
    AccessAttr,
    Combine,
    CombineAttr,
    EventType,
    Space,
    SpaceAttr,
    element_bytes,
    local_memory,
    private_memory,
    space_of,
)
from mgn.dialects.kernel.vectors import FromElementsOp, GatherOp, reduction
from mgn.dialects.kernel.work_items import (
    AsyncCopyOp,
    AsyncWaitOp,
    AwaitStagesOp,
    BarrierOp,
    GlobalIdOp,
    GlobalSizeOp,
    GroupIdOp,
    LocalAllocOp,
    LocalIdOp,
    LocalSizeOp,
    NumGroupsOp,
    PrefetchOp,
)

Kernel = Dialect(
    "kernel",
    [
        FuncOp,
        ReturnOp,
        GlobalIdOp,
        LocalIdOp,
        GroupIdOp,
        GlobalSizeOp,
        LocalSizeOp,
        NumGroupsOp,
        LocalAllocOp,
        BarrierOp,
        AwaitStagesOp,
        AsyncCopyOp,
        AsyncWaitOp,
        PrefetchOp,
        FromElementsOp,
        GatherOp,
        RemainderOp,
        CastOp,
        CompareIntegersOp,
        CompareFloatsOp,
        SelectOp,
        SubGroupSizeOp,
        SubGroupIdOp,
        SubGroupLaneOp,
        SubGroupReduceOp,
        SubGroupShuffleOp,
        SubGroupBroadcastOp,
        CountOp,
        CombineAtOp,
        AddInOrderOp,
        CountInOrderOp,
        MmaOp,
        LoadMatrixOp,
        RoundTf32Op,
        PackOp,
        UnpackOp,
        CopyChunkOp,
        CommitCopiesOp,
        WaitCopiesOp,
        GroupMmaOp,
        GroupMmaHeldOp,
        WaitProductsOp,
        PublishCopiesOp,
    ],
    [SpaceAttr, AccessAttr, CombineAttr, EventType, DeviceAttr],
)

__all__ = [
    "DEVICES",
    "GROUP_BYTES",
    "GROUP_ITEMS",
    "GROUP_ROWS",
    "MMA_SHAPES",
    "SCALAR_CASTS",
    "VECTOR_LANES",
    "Access",
    "AccessAttr",
    "AddInOrderOp",
    "AsyncCopyOp",
    "AsyncWaitOp",
    "AwaitStagesOp",
    "BarrierOp",
    "CastOp",
    "Combine",
    "CombineAtOp",
    "CombineAttr",
    "CommitCopiesOp",
    "CompareFloatsOp",
    "CompareIntegersOp",
    "CopyChunkOp",
    "CountInOrderOp",
    "CountOp",
    "Device",
    "DeviceAttr",
    "EventType",
    "FromElementsOp",
    "FuncOp",
    "GatherOp",
    "GlobalIdOp",
    "GlobalSizeOp",
    "GroupIdOp",
    "GroupMmaHeldOp",
    "GroupMmaOp",
    "Kernel",
    "LoadMatrixOp",
    "LocalAllocOp",
    "LocalIdOp",
    "LocalSizeOp",
    "MmaOp",
    "NumGroupsOp",
    "PackOp",
    "PrefetchOp",
    "PublishCopiesOp",
    "RemainderOp",
    "ReturnOp",
    "RoundTf32Op",
    "SelectOp",
    "Space",
    "SpaceAttr",
    "SubGroupBroadcastOp",
    "SubGroupIdOp",
    "SubGroupLaneOp",
    "SubGroupReduceOp",
    "SubGroupShuffleOp",
    "SubGroupSizeOp",
    "UnpackOp",
    "WaitCopiesOp",
    "WaitProductsOp",
    "compare_floats",
    "compare_integers",
    "convert",
    "element_bytes",
    "local_memory",
    "needs_wide_index",
    "private_memory",
    "reduction",
    "select",
    "space_of",
]
