"""merge-launches: runs of launches become one launch of resident work-groups, where that is faster.

Before:

    plan.launch @project(%x, %w, %q)
    plan.launch @project(%x, %v, %k)
    plan.launch @attend(%q, %k, %y)

After:

    plan.resident @forward_resident_0 items 256 {
      plan.launch @project(%x, %w, %q)
      plan.launch @project(%x, %v, %k)
      plan.barrier
      plan.launch @attend(%q, %k, %y)
    }

A barrier stands where a launch touches bytes that one since the last barrier has written, or writes
bytes that one has read: those of the arena count by where they lie, whatever value lies there.
Small launches with a barrier on either side are done by each group for itself, and marked
`{everywhere}`: then no barrier stands behind them. Small launches that hang on little are moved up
to the first span that may have them.

A launch costs the host the device's `launch_cost`, and the device a little; a barrier costs its
`barrier_cost`. A stage takes longer than its kernel alone where a resident launch holds fewer
work-items at a time, and is none where these lack registers. A device without barriers keeps its
launches, unless `always` is set: then everything that can be is merged. On a CPU a resident launch
has one group and so one core, and the host computes itself: its time is not counted apart.

Launches before and behind a check of the run stay apart, since a run that fails its checks writes
no state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, UnitAttr, f64
from xdsl.passes import ModulePass

from mgn.dialects.checks import is_check
from mgn.dialects.kernel.device import Device
from mgn.dialects.kernel.function import FuncOp
from mgn.dialects.kernel.residency import blocks_of, operations_of
from mgn.dialects.plan.program import ProgramOp
from mgn.dialects.plan.resident import EVERYWHERE, BarrierOp, ResidentOp, place_of
from mgn.dialects.plan.states import NextOp
from mgn.dialects.plan.steps import LaunchOp, OutputOp
from mgn.passes.merge_launches.accesses import (
    Accesses,
    accesses,
    in_early_spans,
    next_barriers,
)
from mgn.passes.merge_launches.moves import Places, is_movable, places_in, put_in_order
from mgn.passes.merge_launches.prices import (
    BEGIN,
    FAR,
    LATENCY,
    NEAR,
    CoreCost,
    KernelCost,
    kernel_cost,
)
from mgn.passes.merge_launches.segments import (
    SIZES,
    Order,
    Prices,
    Segment,
    Stage,
    best_cut,
    cheapest_cut,
)

MOST_REPEATED, MOST_REPEATED_ITEMS = 1 << 16, 1024
"""What a launch reads and writes that every group does for itself, in bytes, and its work-items."""


@dataclass(frozen=True)
class MergeLaunches(ModulePass):
    """Puts launches of every `plan.program` together; `enabled=false` leaves all as they are."""

    name = "merge-launches"

    enabled: bool = True
    always: bool = False

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = Device.of(op)
        if not self.enabled or not (self.always or device.barrier_cost > 0.0):
            return
        kernels = {
            function.sym_name.data: function
            for function in op.body.block.ops
            if isinstance(function, FuncOp)
        }
        costs: dict[str, KernelCost | CoreCost] = {}
        for program in [item for item in op.body.block.ops if isinstance(item, ProgramOp)]:
            _Merger(program, kernels, device, costs, self.always).merge()


class _Merger:
    """Merges the launches of one program."""

    def __init__(
        self,
        program: ProgramOp,
        kernels: dict[str, FuncOp],
        device: Device,
        costs: dict[str, KernelCost | CoreCost],
        always: bool,
    ) -> None:
        self._program, self._kernels, self._device = program, kernels, device
        self._costs, self._always = costs, always
        self._stages: dict[str, dict[int, float]] = {}
        self._operations: dict[str, int] = {}
        self._taken = {op.sym_name.data for op in program.residents} | kernels.keys()

    def merge(self) -> None:
        stand = places_in(self._program.body.block)
        runs, touched = list[list[LaunchOp]](), list[list[Accesses]]()
        for run in filter(None, self._runs()):
            places = [accesses(launch, self._kernels) for launch in run]
            order = self._early_order(run, places, stand)
            runs.append(put_in_order(run, order, stand))
            touched.append([places[number] for number in order])
        for run, places in zip(runs, touched, strict=True):
            self._repeat(run, places)
        orders = [
            Order([self._stage(launch) for launch in run], next_barriers(places))
            for run, places in zip(runs, touched, strict=True)
        ]
        if self._always:
            cut = cheapest_cut(orders, Prices(host=1.0, begin=0.0, barrier=0.0), weight=1.0)
        elif self._device.is_cpu:
            cut = cheapest_cut(orders, self._prices, weight=0.0)
        else:
            cut = best_cut(orders, self._prices)
        for run, places, order, segments in zip(runs, touched, orders, cut.orders, strict=True):
            for segment in segments:
                if segment.items:
                    made = self._put_together(run, places, segment, order.barriers)
                    if not self._always:
                        saved = self._saved(order, segment, cut.weight)
                        made.attributes["saved_seconds"] = FloatAttr(saved, f64)

    @property
    def _prices(self) -> Prices:
        host, barrier = self._device.launch_cost, self._device.barrier_cost
        if self._device.is_cpu:
            return Prices(host, begin=host, barrier=barrier)
        return Prices(host, BEGIN, barrier, NEAR, FAR)

    def _saved(self, order: Order, segment: Segment, weight: float) -> float:
        """What a resident launch saves by the prices with which it was chosen."""
        stages = order.stages[segment.first : segment.end]
        handed = self._prices.host * (len(stages) - 1)
        device = sum(stage.alone for stage in stages) - segment.seconds
        return weight * handed + (1.0 - weight) * device

    def _runs(self) -> list[list[LaunchOp]]:
        """Launches that nothing else stands between, and no end of a run's phase."""
        checked = {
            op.source
            for op in self._program.body.block.ops
            if isinstance(op, OutputOp) and is_check(op.label.data)
        }
        runs: list[list[LaunchOp]] = [[]]
        waiting = len(checked)
        for op in self._program.steps:
            if not isinstance(op, LaunchOp) or not isinstance(op.parent_op(), ProgramOp):
                runs.append([])
                continue
            if checked and self._writes_states(op):
                runs.append([])
            runs[-1].append(op)
            written = [value for value in op.arguments if value in checked]
            waiting -= len(written)
            if written and waiting <= 0:
                runs.append([])
        return runs

    def _writes_states(self, op: LaunchOp) -> bool:
        return any(isinstance(value.owner, NextOp) for value in op.arguments)

    def _early_order(
        self, run: list[LaunchOp], touched: list[Accesses], stand: Places
    ) -> list[int]:
        """An order of a run's launches. Small ones that hang on little are moved up to others that
        may be of one span with them: behind those they would be launches of their own.
        """
        movable = [self._is_small(launch) and is_movable(launch, run[0], stand) for launch in run]
        return in_early_spans(touched, movable)

    def _stage(self, launch: LaunchOp) -> Stage:
        name = launch.kernel_name
        cost = self._cost(name)
        if name not in self._stages:
            kernel = self._kernels[name]
            self._operations[name] = operations_of(kernel)
            blocks = {
                size: blocks_of(kernel, size, self._device)
                for size in SIZES[self._device.kind]
                if size <= self._device.max_work_group_size and (self._always or cost.fits(size))
            }
            self._stages[name] = {
                size: 0.0 if self._always else cost.as_stage(size, count, self._device)
                for size, count in blocks.items()
                if count
            }
        places = frozenset(place_of(value) for value in launch.arguments)
        alone = 0.0 if self._always else cost.alone(self._device)
        hidden = 0.0 if self._always or self._device.is_cpu else LATENCY
        return Stage(name, alone, self._stages[name], places, self._operations[name], hidden)

    def _repeat(self, run: list[LaunchOp], touched: list[Accesses]) -> None:
        """Has every group do the launches between two barriers for itself, where all of them are
        small: the barrier behind them is not needed then.
        """
        barriers = next_barriers(touched)
        first = 0
        while (end := barriers[first]) < len(run):
            span = range(first, end)
            if all(self._may_repeat(run[number], touched[number]) for number in span):
                for number in span:
                    touched[number] = replace(touched[number], everywhere=True)
            first = end

    def _may_repeat(self, launch: LaunchOp, touched: Accesses) -> bool:
        """Whether a launch is small, and leaves the same when it runs again."""
        return self._is_small(launch) and touched.can_repeat

    def _is_small(self, launch: LaunchOp) -> bool:
        cost = self._cost(launch.kernel_name)
        return cost.items <= MOST_REPEATED_ITEMS and cost.moved <= MOST_REPEATED

    def _cost(self, name: str) -> KernelCost | CoreCost:
        """What a kernel takes, found once."""
        if name not in self._costs:
            self._costs[name] = kernel_cost(self._kernels[name], self._device)
        return self._costs[name]

    def _put_together(
        self,
        run: list[LaunchOp],
        touched: list[Accesses],
        segment: Segment,
        barriers: Sequence[int],
    ) -> ResidentOp:
        launches = run[segment.first : segment.end]
        block = self._program.body.block
        made = ResidentOp(self._name(), segment.items)
        made.location = launches[0].location
        block.insert_op_before(made, launches[-1])
        next_span = barriers[segment.first]
        for number, launch in enumerate(launches, segment.first):
            launch.detach()
            if number == next_span:
                made.body.block.add_op(BarrierOp())
                next_span = barriers[number]
            if touched[number].everywhere and number + 1 < segment.end:
                launch.attributes[EVERYWHERE] = UnitAttr()
            made.body.block.add_op(launch)
        return made

    def _name(self) -> str:
        base = f"{self._program.sym_name.data}_resident"
        number = 0
        while f"{base}_{number}" in self._taken:
            number += 1
        self._taken.add(f"{base}_{number}")
        return f"{base}_{number}"
