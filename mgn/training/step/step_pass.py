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
pipeline `training`. `mgn.training.step.step` says what a step is.
"""

import difflib
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.states import StateOp, states_of
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.training.optimisers.named import OPTIMISERS
from mgn.training.optimisers.optimisers import Optimizer
from mgn.training.step.loss_scale import as_loss_scale
from mgn.training.step.options import StepOptions
from mgn.training.step.step import training_step


@dataclass(frozen=True)
class TrainingStepPass(ModulePass):
    """Puts the step of a module's one graph in its place. `optimizer` is a name in small letters;
    without `lr` it has its usual rate. `loss_scale` is `none`, `dynamic` or a number. With
    `accumulate`, a second graph, `…_update`, follows the last of so many batches.
    """

    name = "training-step"

    loss: str = "loss"
    optimizer: str = "adamw"
    lr: float | None = None
    clip_norm: float | None = None
    ema: float | None = None
    accumulate: int = 1
    loss_scale: float | str | None = None
    masters: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        names = [graph.sym_name.data for graph in graphs_of(op)]
        if len(names) != 1:
            listing = ", ".join(names) or "none"
            raise MgnError(f"training-step: one graph is trained; the graphs are {listing}")
        options = StepOptions(
            clip_norm=self.clip_norm,
            ema=self.ema,
            accumulate=self.accumulate,
            loss_scale=as_loss_scale(self.loss_scale),
            masters=self.masters,
        )
        step = training_step(op.clone(), self.loss, self._chosen(), options)
        block = op.body.block
        for old in list(block.ops):
            old.detach()
            old.erase(safe_erase=False)
        graphs: list[Operation] = []
        for made in (step.module, *([] if step.update is None else [step.update])):
            known = states_of(op)
            for new in list(made.body.block.ops):
                new.detach()
                if isinstance(new, GraphOp):
                    graphs.append(new)
                elif not isinstance(new, StateOp) or new.sym_name.data not in known:
                    block.add_op(new)
        block.add_ops(graphs)

    def _chosen(self) -> Optimizer:
        if self.optimizer not in OPTIMISERS:
            near = difflib.get_close_matches(self.optimizer, OPTIMISERS, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(OPTIMISERS)}"
            raise MgnError(f"training-step: no optimiser '{self.optimizer:.80}'; {hint}")
        kind = OPTIMISERS[self.optimizer]
        return kind() if self.lr is None else kind(lr=self.lr)
