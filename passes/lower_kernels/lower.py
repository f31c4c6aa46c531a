"""`lower-kernels`: fusion.kernel → kernel.func, equal kernels sharing one.

Before:
    %y = fusion.kernel pointwise (%a = %x : tensor<64xf32>) -> (tensor<64xf32>) schedule {…} {
      %0 = mgn.relu(%a) : tensor<64xf32>
      fusion.return %0 : tensor<64xf32>
    }
After:
    kernel.func @pointwise_relu_0(%a : memref<64xf32>, %out : memref<64xf32>) access [read, write]
        global [1, 1, 1] local [1, 1, 1] attributes {schedule = {…}} { … kernel.return }
    %y = fusion.launch @pointwise_relu_0(%x) : (tensor<64xf32>) -> tensor<64xf32>
"""

import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from mgn.dialects import kernel
from mgn.dialects.fusion import FusedKernelOp, FusionReturnOp, KernelKind, LaunchOp
from mgn.dialects.kernel.buffers import allow_in_place, buffer_type, start_as
from mgn.dialects.mgn.operation import Kind, TensorOp
from mgn.dialects.mgn.structure import graphs_of
from mgn.passes.kernels.body import Body, read_body
from mgn.passes.kernels.guided_products import guided_products
from mgn.passes.kernels.structure import structure
from mgn.passes.lower_kernels.attention.variants import lower_attention
from mgn.passes.lower_kernels.attention_gradient.variants import lower_attention_gradient
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.evaluate import decide_picks
from mgn.passes.lower_kernels.core.template import Job, Launch, Said
from mgn.passes.lower_kernels.order.order import lower_order
from mgn.passes.lower_kernels.pointwise.pointwise import lower_pointwise
from mgn.passes.lower_kernels.product.contraction import lower_contraction
from mgn.passes.lower_kernels.recurrence.recurrence import lower_recurrence
from mgn.passes.lower_kernels.reduction.reduction import lower_reduction
from mgn.passes.lower_kernels.reduction.row_blocks import lower_row_blocks
from mgn.passes.lower_kernels.scan.scan import lower_scan
from mgn.passes.lower_kernels.scatter.scatter import lower_scatter
from mgn.passes.lower_kernels.update.update import lower_update
from mgn.passes.schedules.choose import is_whole, schedule_for

TEMPLATES: Mapping[KernelKind, Callable[[Job], Launch]] = {
    KernelKind.POINTWISE: lower_pointwise,
    KernelKind.GATHER: lower_pointwise,
    KernelKind.REDUCTION: lower_reduction,
    KernelKind.SCAN: lower_scan,
    KernelKind.CONTRACTION: lower_contraction,
    KernelKind.ATTENTION: lower_attention,
    KernelKind.ATTENTION_GRADIENT: lower_attention_gradient,
    KernelKind.SCATTER: lower_scatter,
    KernelKind.ORDER: lower_order,
    KernelKind.UPDATE: lower_update,
    KernelKind.RECURRENCE: lower_recurrence,
    KernelKind.ROW_BLOCKS: lower_row_blocks,
}
"""Which template writes a kernel's loops."""

_SILENT = (Kind.MOVEMENT, Kind.CONSTANT)
_NAMED = 4

FRAMES_A_NODE = 8
"""Calls on the stack for each node between a result and an input, at most."""


class LowerKernels(ModulePass):
    """Replaces every fusion.kernel by a launch of a kernel.func."""

    name = "lower-kernels"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = kernel.Device.of(op)
        lowered: dict[Hashable, str] = {}
        numbers: dict[str, int] = {}
        taken = {graph.sym_name.data for graph in graphs_of(op)}
        functions: list[kernel.FuncOp] = []
        for fused in [item for item in op.walk() if isinstance(item, FusedKernelOp)]:
            key = structure(fused)
            if key not in lowered:
                schedule = fused.schedule
                if schedule is None or not is_whole(schedule):
                    schedule = schedule_for(fused, device, **(schedule.values if schedule else {}))
                base = readable_name(fused)
                number = numbers.get(base, 0)
                while f"{base}_{number}" in taken:
                    number += 1
                numbers[base] = number + 1
                lowered[key] = f"{base}_{number}"
                function = lower_kernel(fused, lowered[key], schedule.values)
                function.attributes["schedule"] = schedule.entries
                functions.append(function)
            _replace(fused, lowered[key])
        block = op.body.block
        if functions:
            first = block.first_op
            if first is None:
                block.add_ops(functions)
            else:
                block.insert_ops_before(functions, first)


def _replace(fused: FusedKernelOp, name: str) -> None:
    launch = LaunchOp(name, fused.inputs, [value.type for value in fused.outputs])
    launch.location = fused.location
    assert fused.parent is not None
    fused.parent.insert_op_before(launch, fused)
    for old, new in zip(fused.outputs, launch.outputs, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    fused.detach()
    fused.erase()


def readable_name(fused: FusedKernelOp) -> str:
    """A name that says what the kernel computes: its kind and its first operations."""
    names = [
        op.spec.name
        for op in fused.block.ops
        if isinstance(op, TensorOp) and op.spec.kind not in _SILENT
    ]
    if not names:
        names = [op.spec.name for op in fused.block.ops if isinstance(op, TensorOp)]
    kept = [name for n, name in enumerate(names) if n == 0 or names[n - 1] != name]
    if len(kept) > _NAMED:
        kept = [*kept[: _NAMED - 1], kept[-1]]
    return re.sub(r"\W", "_", "_".join([fused.kind.data, *kept]))


def lower_kernel(fused: FusedKernelOp, name: str, schedule: Mapping[str, Any]) -> kernel.FuncOp:
    """The kernel function of one fused kernel."""
    body = guided_products(read_body(fused))
    inputs = [_buffer(value) for value in fused.block.args]
    outputs = [_buffer(value) for value in fused.outputs]
    block = Block(arg_types=[*inputs, *outputs])
    code = Code(block)
    arguments = list(block.args)
    job = Job(body, code, arguments[: len(inputs)], arguments[len(inputs) :], Said(schedule))
    code.states_alignment = job.is_gpu
    launch = Launch((1,))
    if any(node.count for node in body.written):
        with _room_for(body):
            decide_picks(job.evaluator(), body)
            launch = TEMPLATES[fused.kernel_kind](job)
    code.finish()
    accesses = [(type, kernel.Access.READ) for type in inputs]
    accesses += [(type, kernel.Access.WRITE) for type in outputs]
    function = kernel.FuncOp(
        name,
        accesses,
        launch.global_size,
        launch.local_size,
        noalias=not launch.in_place,
        names=_argument_names(fused),
        body=Region(block),
    )
    function.location = fused.location
    if launch.in_place:
        allow_in_place(function, launch.in_place)
    if launch.starts_as:
        start_as(function, launch.starts_as)
    return function


@contextmanager
def _room_for(body: Body) -> Iterator[None]:
    """Raises the limit of recursion for a body: evaluation recurses over it, however deep it is."""
    limit = sys.getrecursionlimit()
    deepest = max((node.depth for node in body.nodes), default=0)
    sys.setrecursionlimit(limit + FRAMES_A_NODE * deepest)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _buffer(value: SSAValue) -> Any:
    assert isinstance(value.type, TensorType)
    return buffer_type(value.type)


def _argument_names(fused: FusedKernelOp) -> list[str]:
    last = fused.block.last_op
    assert isinstance(last, FusionReturnOp)
    names = [argument.name_hint or f"in{n}" for n, argument in enumerate(fused.block.args)]
    count = len(last.operands)
    names += ["out"] if count == 1 else [f"out{n}" for n in range(count)]
    return names
