"""unpack-blocks: a parameter of a block format is read as its parts, and its values are computed.

Before:
    mgn.param @w : tensor<4x64x!mgn.block<"q8_0">>
    mgn.graph @g() -> ("w" : tensor<4x64xf32>) {
      %w = mgn.read @w : tensor<4x64xf32>
      mgn.return %w : tensor<4x64xf32>
    }
After:
    mgn.param @w : tensor<4x64x!mgn.block<"q8_0">>
    mgn.graph @g() -> ("w" : tensor<4x64xf32>) {
      %0 = mgn.read @"w#q8_0.scales" : tensor<4x2xf16>
      %1 = mgn.reshape(%0) shape = [4, 2, 1] : (tensor<4x2xf16>) -> tensor<4x2x1xf16>
      %2 = mgn.read @"w#q8_0.codes" : tensor<4x64xi8>
      %3 = mgn.reshape(%2) shape = [4, 2, 32] : (tensor<4x64xi8>) -> tensor<4x2x32xi8>
      %4 = mgn.cast(%3) T = f32 : (tensor<4x2x32xi8>) -> tensor<4x2x32xf32>
      %5 = mgn.cast(%1) T = f32 : (tensor<4x2x1xf16>) -> tensor<4x2x1xf32>
      %6 = mgn.mul(%4, %5) : (tensor<4x2x32xf32>, tensor<4x2x1xf32>) -> tensor<4x2x32xf32>
      %w = mgn.reshape(%6) shape = [4, 64] : (tensor<4x2x32xf32>) -> tensor<4x64xf32>
      mgn.return %w : tensor<4x64xf32>
    }

These are plain operations, so the e-graph makes them part of the kernels that read the values. What
depends on the codes is never computed ahead of a run, since it would take more memory than these.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mgn.dialects.block_formats import (
    BLOCK,
    BLOCK_FORMATS,
    CODES,
    MINIMUMS,
    SCALES,
    BlockFormat,
    Part,
    part_name,
)
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.structure import ParamOp, ReadOp, graphs_of, parameters_of
from mgn.dialects.types import ELEMENT_TYPES, Family, element_of, tensor
from mgn.passes.rewriting import rewrite_block

_F32 = ELEMENT_TYPES["f32"]


@dataclass(frozen=True)
class UnpackBlocks(ModulePass):
    """Unpacks the parameters that all graphs of a module read."""

    name = "unpack-blocks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        packed = {
            name: parameter
            for name, parameter in parameters_of(op).items()
            if element_of(parameter.type).family is Family.BLOCK
        }

        def unpacked(b: Emitter, read: Operation) -> Sequence[SSAValue] | None:
            if not isinstance(read, ReadOp) or read.parameter_name not in packed:
                return None
            return [_values(b, packed[read.parameter_name])]

        if packed:
            for graph in graphs_of(op):
                rewrite_block(graph.block, unpacked)


def _values(b: Emitter, parameter: ParamOp) -> SSAValue:
    """The values of a parameter, computed from its parts."""
    format = BLOCK_FORMATS[element_of(parameter.type).name]
    shape = parameter.type.get_shape()
    parts = {part.name: _read(b, parameter, format, part) for part in format.parts}
    codes = parts[CODES]
    values = b.cast(codes, _F32)
    if format.bits == 4:
        high = b.floor(b.mul(values, 1 / 16))
        values = b.concat([b.sub(values, b.mul(high, 16)), high], axis=-1)
    values = b.mul(values, b.cast(parts[SCALES], _F32))
    if format.has_minimum:
        values = b.add(values, b.cast(parts[MINIMUMS], _F32))
    return b.reshape(values, list(shape))


def _read(b: Emitter, parameter: ParamOp, format: BlockFormat, part: Part) -> SSAValue:
    """A part, with an axis of blocks before that of a block."""
    shape = parameter.type.get_shape()
    type = tensor(part.element, format.part_shape(part, shape))
    read = ReadOp(part_name(parameter.sym_name.data, format, part), type)
    if b.location is not None:
        read.location = b.location
    b.insert(read)
    return b.reshape(read.result, [*shape[:-1], shape[-1] // BLOCK, part.count])
