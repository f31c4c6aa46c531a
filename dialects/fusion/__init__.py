"""The `fusion` dialect: one operation is one device kernel, and holds the tensor operations it
computes.

    %y = fusion.kernel contraction (%a = %x : tensor<4x8xf32>, %b = %w : tensor<8x8xf32>)
        -> (tensor<4x8xf32>) {
      %0 = mgn.matmul(%a, %b) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %1 = mgn.relu(%0) : tensor<4x8xf32>
      fusion.return %1 : tensor<4x8xf32>
    }

Inlining every kernel's body gives back a plain `mgn` program. After lowering, `fusion.launch
@kernel_0(%x, %w)` stands for the kernel: its arguments are the kernel function's leading ones, its
results the trailing ones.
"""

from mgn.dialects.fusion.operations import (
    FusedKernelOp,
    Fusion,
    FusionReturnOp,
    KernelKind,
    LaunchOp,
    ScheduleAttr,
)

__all__ = ["FusedKernelOp", "Fusion", "FusionReturnOp", "KernelKind", "LaunchOp", "ScheduleAttr"]
