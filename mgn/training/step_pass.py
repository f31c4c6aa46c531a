"""training-step: a graph that computes a loss becomes the step that lowers it.

Before:
    mgn.param @"w" : tensor<4xf32>
    mgn.graph @g("x" = %x : tensor<4xf32>) -> ("loss" : tensor<f32>) {
      %w = mgn.read @"w" : tensor<4xf32>
      …
      mgn.return %loss : tensor<f32>
    }
After, by SGD:
    mgn.state @"w" : tensor<4xf32>
    mgn.state @"optimizer.step" : tensor<i32>
    mgn.graph @g("x" = %x : tensor<4xf32>) -> ("loss" : tensor<f32>) {
      %w = mgn.read_state @"w" : tensor<4xf32>
      …
      %gradient = mgn.grad %loss of %w : tensor<f32>, tensor<4xf32>
      %step = mgn.mul(%rate, %gradient) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
      %after = mgn.sub(%w, %step) : tensor<4xf32>
      mgn.write_state @"w", %after : tensor<4xf32>
      …
      mgn.return %loss : tensor<f32>
    }

It is what `mgn.compile(…, mode="training")` does before all passes, and so stands first in the
pipeline `training`. `mgn.training.step` says what a step is.
"""

import difflib
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.structure import graphs_of
from mgn.training.named import OPTIMISERS
from mgn.training.optimisers import Optimizer
from mgn.training.step import StepOptions, training_step


@dataclass(frozen=True)
class TrainingStepPass(ModulePass):
    """Puts the step of a module's one graph in its place. `optimizer` is a name in small letters;
    without `lr` it has its usual rate.
    """

    name = "training-step"

    loss: str = "loss"
    optimizer: str = "adamw"
    lr: float | None = None
    clip_norm: float | None = None
    ema: float | None = None

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        names = [graph.sym_name.data for graph in graphs_of(op)]
        if len(names) != 1:
            listing = ", ".join(names) or "none"
            raise MgnError(f"training-step: one graph is trained; the graphs are {listing}")
        options = StepOptions(clip_norm=self.clip_norm, ema=self.ema)
        step = training_step(op.clone(), self.loss, self._chosen(), options)
        block, made = op.body.block, step.module.body.block
        for old in list(block.ops):
            old.detach()
            old.erase(safe_erase=False)
        for new in list(made.ops):
            new.detach()
            block.add_op(new)

    def _chosen(self) -> Optimizer:
        if self.optimizer not in OPTIMISERS:
            near = difflib.get_close_matches(self.optimizer, OPTIMISERS, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(OPTIMISERS)}"
            raise MgnError(f"training-step: no optimiser '{self.optimizer:.80}'; {hint}")
        kind = OPTIMISERS[self.optimizer]
        return kind() if self.lr is None else kind(lr=self.lr)
