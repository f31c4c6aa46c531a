"""The host's program: which device buffers there are, what lies where, which kernels run in order.

In: what `plan-memory` decides. Out: what the runtime records once and replays.

    plan.program @mlp arena 4096 {
      %x = plan.input "x" tensor<32x64xf32> : memref<2048xf32>
      %w = plan.param @"layers.0.w" tensor<16x64xf32> : memref<1024xf32>
      %c = plan.constant dense<0.5> : tensor<16xf32> to memref<16xf32>
      %d = plan.derived : memref<1024xf32>
      plan.prepare @kernel_1(%w, %d)
      %y = plan.view offset 256 : memref<512xf32>
      plan.launch @kernel_3(%x, %d, %c, %y)
      plan.output "logits" %y tensor<32x16xf32>
    }

Inputs, parameters and constants are buffers of their own that no launch writes. A state is one
too: a run finds a value there, and may leave another (`plan.next`). What depends on
parameters and constants alone is *derived*: `plan.prepare` runs before the first run, and again
when a parameter that it reads has changed; what it writes has a buffer of its own, which no launch
writes. Everything else is a view of the arena. The verifier of `plan.program` follows the launches
in order and refuses a read of what is not, or no longer, there.
"""

from mgn.dialects.plan.program import Plan, ProgramOp

__all__ = ["Plan", "ProgramOp"]
