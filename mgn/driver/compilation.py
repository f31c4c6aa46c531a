"""The way from a program to kernels and a plan, in the steps that a report names.

In: an xDSL module of one graph and a device's description. Out: after `optimize_graph` the module
cut into kernels, after `compile_graph` also the kernels' signatures and the launch plan: all that a
runtime needs, and no OpenCL was touched.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from mgn.codegen.launch_plan import LaunchPlan, LaunchStep
from mgn.codegen.signature import ELEMENT_BYTES, KernelSignature
from mgn.diagnostics import MgnError, spelled
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.garbage import collector_paused
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.parameter_only import parameter_only
from mgn.dialects.mgn.states import StateOp, states_of
from mgn.dialects.mgn.structure import GraphOp, ParamOp, graphs_of, parameters_of
from mgn.dialects.places import phases_of
from mgn.driver.handed_over import handed_over
from mgn.driver.kernel_work import Work, kernel_work
from mgn.driver.pipelines import (
    MEMORY,
    PIPELINES,
    REMATERIALISE,
    PipelineError,
    Step,
    find_pass,
    name_of,
    run_passes,
    within,
)
from mgn.driver.precision import check_precision, precision_options
from mgn.driver.report import (
    BudgetReport,
    DerivedParameter,
    KernelLine,
    MemoryReport,
    MergedLaunch,
    OptimizeReport,
    RepeatedKernel,
    TuningReport,
    together,
)
from mgn.modules.dialect_table import make_context
from mgn.modules.mlir_text import check_module
from mgn.passes.wrong_level import WrongLevel
from mgn.tasks import Task, task

if TYPE_CHECKING:
    from mgn.dialects.plan import ProgramOp
    from mgn.dialects.plan.steps import KernelCallOp
    from mgn.passes.rematerialise.fit_graph import Outcome
    from mgn.passes.saturate import Saturate, SaturateOptions
    from mgn.passes.saturate.explain.trace import SaturateTrace

SCHEDULING = "choose-schedules"
"""The pass that a tuner follows."""

CUTTING = ("saturate", SCHEDULING)
"""The passes after which a graph is kernels, and these are listed: a schedule says of a product
which matrix unit it runs on.
"""

LOWERING = "lower-kernels"
"""The pass that makes loops of kernels."""

Observer = Callable[[str, ModuleOp], None]
"""Called with a pass's name and the module after it."""


@dataclass(frozen=True)
class TuningPass(ModulePass):
    """A pass that changes schedules once they are chosen, and reports what it changed."""

    reports: list[TuningReport] = field(default_factory=list[TuningReport], init=False)


@dataclass(frozen=True)
class Compiled:
    """A graph as a plan and kernels, with the parameters it reads, its states, and how it came
    about.
    """

    plan: LaunchPlan
    kernels: dict[str, KernelSignature]
    parameters: dict[str, ParamOp]
    states: dict[str, StateOp]
    report: OptimizeReport


def optimize_graph(
    module: ModuleOp,
    device: Device,
    observe: Observer | None = None,
    saturation: "SaturateOptions | None" = None,
    precision: str = "f32",
    trace: "SaturateTrace | None" = None,
    pipeline: Sequence[Step] | None = None,
    memory: int | None = None,
) -> OptimizeReport:
    """Simplifies, rounds and saturates a module of one graph, in place; of a pipeline, what stands
    behind its last `saturate` is left out. MgnError where it takes no budget of `memory`, or has no
    `saturate`, behind which that would be known.
    """
    passes = _Passes.of(saturation, precision, trace, pipeline, memory)
    if memory is not None and not passes.planning:
        raise PipelineError(
            "what a program takes is known behind 'saturate', and the pipeline lacks that"
        )
    return _run(module, device, precision, passes, passes.optimizing, observe)


def compile_graph(
    module: ModuleOp,
    device: Device,
    observe: Observer | None = None,
    target: str = "opencl",
    saturation: "SaturateOptions | None" = None,
    precision: str = "f32",
    trace: "SaturateTrace | None" = None,
    tuner: TuningPass | None = None,
    pipeline: Sequence[Step] | None = None,
    memory: int | None = None,
) -> Compiled:
    """Takes a module of one graph all the way to a plan and kernels of a target, in place.

    A `trace` gets what explains the choice of kernels, which is then made afresh. A `tuner` changes
    schedules once they are chosen. A `pipeline` takes the place of the default one: its passes that
    say nothing of their options have those of `saturation` and `precision`. The program takes at
    most `memory` bytes of the device.
    """
    with collector_paused():
        passes = _Passes.of(saturation, precision, trace, pipeline, memory)
        wanted = passes.compiling(tuner)
        report = _run(module, device, precision, passes, wanted, observe)
        if tuner is not None and tuner.reports:
            report.tuning = tuner.reports[-1]
        return _emitted(module, device, target, report, _outcome_of(wanted))


def planned_memory(
    module: ModuleOp,
    saturation: "SaturateOptions | None",
    memory: int,
    pipeline: Sequence[Step] | None = None,
) -> MemoryReport:
    """What a module that `optimize_graph` has left takes of a device, within a budget. MgnError
    where it does not fit. The module is used up.
    """
    from mgn.codegen.plan_to_launches import launch_plan
    from mgn.dialects.plan import ProgramOp

    wanted = _Passes.of(saturation, "f32", None, pipeline, memory).planning
    run_passes(wanted, module, make_context())
    outcome = _outcome_of(wanted)
    program = next(op for op in module.body.block.ops if isinstance(op, ProgramOp))
    plan = launch_plan(program)
    return _memory_report(plan, _derived_parameters(plan), outcome)


def _outcome_of(passes: Sequence[ModulePass]) -> "Outcome | None":
    """How a graph got into its budget; None where it has none."""
    outcomes = [item for found in passes for item in getattr(found, "outcomes", [])]
    return outcomes[0] if outcomes else None


@dataclass(frozen=True)
class _Passes:
    """The steps of a pipeline, with the settings of a compilation as the options of those that say
    nothing of theirs; only passes that run are imported. `saturate` is the last of its kind.
    """

    saturate: "Saturate"
    precision: str
    steps: tuple[Step, ...]
    memory: int | None = None

    @classmethod
    def of(
        cls,
        saturation: "SaturateOptions | None",
        precision: str,
        trace: "SaturateTrace | None",
        pipeline: Sequence[Step] | None,
        memory: int | None = None,
    ) -> "_Passes":
        """MgnError for a precision that is not known."""
        from mgn.passes.saturate import Saturate

        check_precision(precision)
        saturate = Saturate.of(saturation, trace)
        steps: list[Step] = []
        for step in within(PIPELINES["inference"] if pipeline is None else pipeline, memory):
            if isinstance(step, Saturate):  # a pass of its own for each run: it holds its reports
                moderate = step.options.moderate and saturate.options.moderate
                options = replace(step.options, moderate=moderate)
                step = saturate = Saturate.of(options, trace)
            steps.append(step)
        return cls(saturate, precision, tuple(steps), memory)

    @property
    def optimizing(self) -> list[ModulePass]:
        """Those of `mgn.optimize`: up to the last `saturate`."""
        return self._made(self.steps[: self._cut])

    @property
    def planning(self) -> list[ModulePass]:
        """Those of `mgn.compile` that are not among the ones of `mgn.optimize`."""
        return self._made(self.steps[self._cut :])

    def compiling(self, tuner: TuningPass | None) -> list[ModulePass]:
        """Those of `mgn.compile`; a tuner stands behind the pass that chooses schedules."""
        found = self._made(self.steps)
        if tuner is None:
            return found
        return [
            item
            for chosen in found
            for item in ([chosen, tuner] if chosen.name == SCHEDULING else [chosen])
        ]

    @property
    def _cut(self) -> int:
        """How many steps there are up to the last `saturate`; all of them where there is none."""
        ends = [n for n, step in enumerate(self.steps, 1) if name_of(step) == self.saturate.name]
        return ends[-1] if ends else len(self.steps)

    def _made(self, steps: Sequence[Step]) -> list[ModulePass]:
        options: dict[str, dict[str, Any]] = {
            **precision_options(self.precision),
            "plan-memory": {"prepare": self.saturate.options.prepare},
            "read-panels": {"prepare": self.saturate.options.prepare},
        }
        if self.memory is not None:
            options[REMATERIALISE] = {MEMORY: self.memory}
        elif REMATERIALISE in steps:
            given = spelled('memory="4GiB"', "--memory 4GiB")
            raise PipelineError(
                f"the pass '{REMATERIALISE}' takes a budget: {given}, or "
                f'{REMATERIALISE}{{memory="4GiB"}} in the pipeline'
            )
        found = [
            step
            if isinstance(step, ModulePass)
            else self.saturate
            if step == self.saturate.name
            else find_pass(step)(**options.get(step, {}))
            for step in steps
        ]
        return _agreeing(found)


def _agreeing(passes: Sequence[ModulePass]) -> list[ModulePass]:
    """The passes, where `rematerialise` has the options of `plan-memory`, and is one of its own for
    each run, as it holds its outcomes.
    """
    if all(item.name != REMATERIALISE for item in passes):
        return list(passes)
    from mgn.passes.plan_memory import PlanMemory
    from mgn.passes.rematerialise.rematerialise import Rematerialise

    planner = next((item for item in passes if isinstance(item, PlanMemory)), PlanMemory())
    options = {"alignment": planner.alignment, "prepare": planner.prepare}
    return [
        replace(item, **options) if isinstance(item, Rematerialise) else item for item in passes
    ]


@dataclass(frozen=True)
class _Reporter:
    """A watcher: puts down what each pass took and the kernels there are, and calls an observer."""

    report: OptimizeReport
    prepares: bool
    observe: Observer | None
    task: Task

    def before(self, name: str, module: ModuleOp) -> None:
        """Lists the kernels again where a pass of the user's stood behind the one that cut them."""
        self.task.at(name)
        last = self.report.times[-1][0]
        if name == LOWERING and last not in CUTTING:
            _list_kernels(self.report, module, self.prepares)

    def after(self, name: str, module: ModuleOp, seconds: float) -> None:
        self.report.times.append((name, seconds))
        if self.observe is not None:
            self.observe(name, module)
        if name in CUTTING:
            _list_kernels(self.report, module, self.prepares)


def _run(
    module: ModuleOp,
    device: Device,
    precision: str,
    passes: _Passes,
    wanted: Sequence[ModulePass],
    observe: Observer | None,
) -> OptimizeReport:
    """Runs passes over a module of one graph, which is verified before and after."""
    module.attributes["mgn.device"] = device.to_attribute()
    graph = _only_graph(module)
    operations = sum(isinstance(op, TensorOp) for op in graph.walk())
    report = OptimizeReport(graph.sym_name.data, device, operations, precision)
    with _timed(report, "verify"):
        check_module(module)
    with task("compile", f"compiling {report.graph}") as compiling:
        reporter = _Reporter(report, passes.saturate.options.prepare, observe, compiling)
        run_passes(wanted, module, make_context(), [reporter])
    report.saturation = passes.saturate.report
    return report


def _only_graph(module: ModuleOp) -> GraphOp:
    """The graph of a module. MgnError where there are others, or something lowered beside it."""
    for op in module.body.block.ops:
        if not isinstance(op, GraphOp | ParamOp | StateOp):
            raise WrongLevel("compile", op, "graph and no parameter", "a graph is compiled once")
    graphs = list(graphs_of(module))
    if len(graphs) != 1:
        raise MgnError(f"a module of one graph is compiled, and this one has {len(graphs)}")
    return graphs[0]


def _emitted(
    module: ModuleOp,
    device: Device,
    target: str,
    report: OptimizeReport,
    outcome: "Outcome | None" = None,
) -> Compiled:
    """The plan and the kernels of a module that is lowered; `outcome` says how it got into its
    budget of memory, if it has one.
    """
    from mgn.codegen.plan_to_launches import launch_plan
    from mgn.dialects.plan import ProgramOp
    from mgn.dialects.plan.steps import LaunchOp
    from mgn.driver.kernel_targets import plan_signatures

    with _timed(report, "verify again"):
        check_module(module)
    with _timed(report, "emit"):
        program = next((op for op in module.body.block.ops if isinstance(op, ProgramOp)), None)
        if program is None:
            goal, other = spelled("mgn.compile", "a run"), spelled("mgn.optimize", "mgn-opt")
            raise PipelineError(
                f"the passes leave no plan to run: a pipeline for {goal} ends with plan-memory, as "
                f"'default' does; {other} takes any"
            )
        kernels = plan_signatures(module, program, device, target)
        plan = launch_plan(program)
    report.derived = _derived_parameters(plan)
    report.memory = _memory_report(plan, report.derived, outcome)
    if outcome is not None and len({*outcome.order}) == len(report.kernels):
        report.kernels = [report.kernels[number] for number in outcome.order]
    report.distinct_kernels = len(kernels)
    report.merged = merged_launches(program)
    named = _named(report.kernels, [step for step in program.steps if isinstance(step, LaunchOp)])
    report.kernels = list(_launched(named, plan.launches, report.merged))
    report.prepared = _named(report.prepared, list(program.preparations))
    return Compiled(plan, kernels, parameters_of(module), states_of(module), report)


def _memory_report(
    plan: LaunchPlan, derived: Sequence[DerivedParameter], outcome: "Outcome | None"
) -> MemoryReport:
    """What a plan takes, and how it got into its budget."""
    held = sum(item.bytes for item in derived)
    budget = None
    if outcome is not None:
        budget = BudgetReport(
            outcome.budget,
            outcome.beside + plan.arena,
            tuple(RepeatedKernel(*item) for item in outcome.repeated),
            *(float(outcome.seconds), float(outcome.bound), float(outcome.total), outcome.early),
        )
    return MemoryReport(plan.arena, plan.tensor_bytes, plan.lower_bound, held, budget)


@contextmanager
def _timed(report: OptimizeReport, name: str) -> Generator[None]:
    start = time.perf_counter()
    yield
    report.times.append((name, time.perf_counter() - start))


def _list_kernels(report: OptimizeReport, module: ModuleOp, prepares: bool) -> None:
    """Puts down the kernels of a module, which has one graph, in the order they run."""
    graph = next(graphs_of(module), None)
    if graph is None:
        return
    constant = parameter_only(graph) if prepares else frozenset[SSAValue]()
    report.kernels, report.prepared = [], []
    for op in graph.block.ops:
        if isinstance(op, FusedKernelOp):
            prepared = all(value in constant for value in op.outputs)
            (report.prepared if prepared else report.kernels).append(_kernel_line(op))
    report.handed_over = handed_over(graph, constant)


def _named(lines: Sequence[KernelLine], steps: "Sequence[KernelCallOp]") -> list[KernelLine]:
    if len(lines) != len(steps):  # passes of the user's made launches of something else
        return [KernelLine(step.kernel_name, "", (), Work(0, 0, "f32")) for step in steps]
    return [replace(line, name=step.kernel_name) for line, step in zip(lines, steps, strict=True)]


def _launched(
    lines: Sequence[KernelLine], steps: Sequence[LaunchStep], merged: Sequence[MergedLaunch]
) -> Iterator[KernelLine]:
    """A line for each launch; one of several kernels has their operations and their work."""
    rest = iter(lines)
    stages = {item.kernel: item.stages for item in merged}
    for step in steps:
        found = [next(rest) for _ in range(stages.get(step.kernel, 1))]
        yield found[0] if step.kernel not in stages else together(step.kernel, found)


def merged_launches(program: "ProgramOp") -> list[MergedLaunch]:
    """What the resident launches of a program are."""
    return [
        MergedLaunch(
            op.sym_name.data,
            sum(map(len, op.spans)),
            len(op.spans) - 1,
            op.group_items,
            op.saved_seconds,
        )
        for op in program.residents
    ]


def _derived_parameters(plan: LaunchPlan) -> list[DerivedParameter]:
    """What is kept of what derives from parameters."""
    passing = plan.passing
    return [
        DerivedParameter(
            ELEMENT_BYTES[plan.buffers[number].element] * prod(plan.buffers[number].shape),
            plan.prepare[step].kernel,
            tuple(sorted(plan.buffers[item].name for item in parameters)),
        )
        for number, (step, parameters) in plan.derivations().items()
        if number not in passing
    ]


def _kernel_line(op: FusedKernelOp) -> KernelLine:
    computed = [item for item in op.block.ops if isinstance(item, TensorOp)]
    operations = tuple(item.spec.name for item in computed)
    return KernelLine("", op.kind.data, operations, kernel_work(op), phases_of(computed))
