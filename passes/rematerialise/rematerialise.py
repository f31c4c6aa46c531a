"""`rematerialise`: launches in another order, or twice, so that programs fit into a budget.

Before:
    mgn.graph @g("x" = %x : tensor<64xf32>) -> ("y" : tensor<64xf32>) {
      %a = fusion.launch @tanh_0(%x) : (tensor<64xf32>) -> tensor<64xf32>
      …
      %y = fusion.launch @mul_0(%b, %a) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      mgn.return %y : tensor<64xf32>
    }
After, where there is no room for `%a` meanwhile:
    mgn.graph @g("x" = %x : tensor<64xf32>) -> ("y" : tensor<64xf32>) {
      %a = fusion.launch @tanh_0(%x) : (tensor<64xf32>) -> tensor<64xf32>
      …
      %a_1 = fusion.launch @tanh_0(%x) {again} : (tensor<64xf32>) -> tensor<64xf32>
      %y = fusion.launch @mul_0(%b, %a_1) : (tensor<64xf32>, tensor<64xf32>) -> tensor<64xf32>
      mgn.return %y : tensor<64xf32>
    }

`plan-memory` follows, with the same options. Kernels have their prices from `price-kernels`.
"""

from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from mgn.dialects.kernel.buffers import in_place_pairs, starting_pairs
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.passes.plan_memory import (
    EARLY,
    FIGURES,
    PLANNED,
    alignment_of,
    plan_graph,
    split_launches,
)
from mgn.passes.rematerialise.budget import parse_bytes
from mgn.passes.rematerialise.fit_graph import Kernels, Outcome, fit_graph
from mgn.passes.rematerialise.prices import price_of


@dataclass(frozen=True)
class Rematerialise(ModulePass):
    """Has every graph take at most `memory` of the device, such as `"4GiB"`. MgnError where no way
    to do so is found.
    """

    name = "rematerialise"

    memory: int | str
    alignment: int | None = None
    prepare: bool = True
    outcomes: list[Outcome] = field(default_factory=list[Outcome], init=False)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        budget, alignment = parse_bytes(self.memory), alignment_of(op, self.alignment)
        functions = [item for item in op.body.block.ops if isinstance(item, FuncOp)]
        kernels = Kernels(
            {function.sym_name.data: in_place_pairs(function) for function in functions},
            {function.sym_name.data: starting_pairs(function) for function in functions},
            {function.sym_name.data: price_of(function) for function in functions},
        )
        for graph in graphs_of(op):
            self._fit(graph, kernels, budget, alignment)

    def _fit(self, graph: GraphOp, kernels: Kernels, budget: int, alignment: int) -> None:
        settings = (kernels.in_place, alignment, self.prepare, kernels.starting)
        prepared, launches = split_launches(graph, self.prepare, kernels.starting)
        derived: set[SSAValue] = {value for launch in prepared for value in launch.outputs}
        program = plan_graph(graph, *settings)
        outcome = fit_graph(graph, program, launches, derived, kernels, budget)
        self.outcomes.append(outcome)
        arena = plan_graph(graph, *settings, outcome.early).arena_bytes
        peak = arena + outcome.beside
        if peak > budget:
            raise PassFailedException(f"rematerialise: a plan takes {peak} bytes of {budget}")
        figures = {
            "budget": budget,
            "peak": peak,
            "repeated": sum(count for _, count, _ in outcome.repeated),
            "repeated_nanoseconds": round(outcome.seconds * 1e9),
        }
        graph.attributes[FIGURES] = DictionaryAttr(
            {name: IntegerAttr(value, i64) for name, value in figures.items()}
        )
        graph.attributes[PLANNED] = IntegerAttr(arena, i64)
        if outcome.early:
            graph.attributes[EARLY] = UnitAttr()
