"""What there is to say of each kernel: where it comes from, why it was chosen, what it costs.

In: a module of one graph that is not cut into kernels yet, a device's description, and, where the
graph ran, the times of its launches. Out: an `Explanation`: plain data for the page.

The graph is compiled with a trace of saturate. Every chosen kernel gets its number as its source
location, which the passes after saturate keep: so launches know the kernel that they came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, ModuleOp, StringAttr

from mgn.diagnostics import MgnError
from mgn.dialects.fusion import FusedKernelOp
from mgn.dialects.kernel.device import Device
from mgn.dialects.places import PHASES
from mgn.dialects.plan.steps import KernelCallOp, LaunchOp
from mgn.driver.compilation import compile_graph
from mgn.driver.kernel_targets import stage_signatures
from mgn.driver.kernel_work import Work, kernel_work, matrix_unit_of
from mgn.driver.pipelines import Step as PassStep
from mgn.driver.report import MergedLaunch, OptimizeReport
from mgn.explain.attribution import Attribution
from mgn.modules.mlir_text import print_mlir
from mgn.passes.saturate.candidates.candidates import Arranged, Candidate
from mgn.passes.saturate.explain.alternatives import Alternatives
from mgn.passes.saturate.explain.derivation import Derivations, Step
from mgn.passes.saturate.explain.trace import SaturateTrace, SourceOperation
from mgn.passes.saturate.extraction.report import SaturateReport

if TYPE_CHECKING:
    from mgn.passes.saturate import SaturateOptions

NUMBERED = "kernel"
"""The file name of the locations that number the kernels."""


@dataclass(frozen=True)
class Rival:
    """A kernel that was not chosen, and what the program would cost with it."""

    kind: str
    operations: tuple[str, ...]
    results: int
    price: float
    change: float | None
    added: tuple[str, ...]
    dropped: int


@dataclass
class ExplainedKernel:
    """One chosen kernel, and the function that it became. `arranged` says how it came to be one, or
    one of several, where there was a choice.

    A `prepared` one runs when parameters have changed, and not in every run. `reads` are
    numbers of kernels, and names of inputs. `phases` are the parts of a training step that its
    sources belong to.
    """

    number: int
    kind: str
    operations: tuple[str, ...]
    predicted: float
    work: Work
    text: str = ""
    schedule: str = ""
    function: str = ""
    arranged: Arranged | None = None
    measured: float | None = None
    prepared: bool = False
    sources: list[int] = field(default_factory=list[int])
    reads: list[int | str] = field(default_factory=list[int | str])
    writes: list[str] = field(default_factory=list[str])
    phases: tuple[str, ...] = ()


@dataclass
class Group:
    """Chosen kernels that became the same function; the first stands for all."""

    kernels: list[ExplainedKernel]
    steps: list[Step] = field(default_factory=list[Step])
    rivals: list[Rival] = field(default_factory=list[Rival])
    rival_count: int = 0
    separate: float | None = None

    @property
    def first(self) -> ExplainedKernel:
        return self.kernels[0]

    @property
    def predicted(self) -> float:
        return sum(item.predicted for item in self.kernels)

    @property
    def measured(self) -> float | None:
        """The time of all launches in a run, where each is known."""
        times = [item.measured for item in self.kernels if not item.prepared]
        if not times:
            return None
        return sum(t for t in times if t is not None) if None not in times else None


@dataclass(frozen=True)
class Function:
    """A kernel function: its OpenCL C, and its launch."""

    source: str
    global_size: tuple[int, ...]
    local_size: tuple[int, ...]


@dataclass
class Explanation:
    """Everything that the page shows of one graph."""

    report: OptimizeReport
    saturation: SaturateReport
    operations: list[SourceOperation]
    inputs: dict[str, int]
    outputs: dict[str, int]
    kernels: list[ExplainedKernel]
    groups: list[Group]
    functions: dict[str, Function]
    texts: Mapping[str, str]
    remark: str = ""

    @property
    def has_phases(self) -> bool:
        """Whether there is more than one part of a training step."""
        return len({operation.phase for operation in self.operations}) > 1


def explain_graph(
    module: ModuleOp,
    device: Device,
    *,
    saturation: "SaturateOptions | None" = None,
    precision: str = "f32",
    times: Sequence[tuple[str, float]] = (),
    texts: Mapping[str, str] | None = None,
    pipeline: Sequence[PassStep] | None = None,
    memory: int | None = None,
) -> Explanation:
    """The explanation of a graph, which is compiled in place.

    `times` are the launches of a run by kernel name, in order; `texts` the program's files by name.
    """
    trace = SaturateTrace()
    stages = _Stages()
    compiled = compile_graph(
        module,
        device,
        stages.observe,
        saturation=saturation,
        precision=precision,
        trace=trace,
        pipeline=pipeline,
        memory=memory,
    )
    if trace.found is None or trace.selection is None:
        raise MgnError("a page explains what 'saturate' chose, and the passes have no 'saturate'")
    chosen = [trace.found.candidates[number] for number in trace.selection.kernels]
    kernels = [stages.explained(n, item) for n, item in enumerate(chosen)]
    for name, number, is_launch in stages.calls:
        kernels[number].function = name
        kernels[number].prepared = not is_launch
    launches = [(name, number) for name, number, is_launch in stages.calls if is_launch]
    remark = _measure(kernels, launches, times, compiled.report.merged)
    attribution = Attribution(trace, chosen)
    for kernel, candidate in zip(kernels, chosen, strict=True):
        kernel.sources = attribution.sources[kernel.number]
        met = {trace.operations[number].phase for number in kernel.sources}
        kernel.phases = tuple(phase for phase in PHASES if phase in met)
        kernel.reads, kernel.writes = attribution.neighbours(candidate)
    functions = {
        name: Function(item.source, item.global_size, item.local_size)
        for name, item in {**stage_signatures(module, device), **compiled.kernels}.items()
    }
    saturated = compiled.report.saturation
    assert isinstance(saturated, SaturateReport)
    inputs = {name: handle for handle, name in trace.names.items()}
    groups = _groups(kernels, chosen, trace, device)
    return Explanation(
        compiled.report,
        saturated,
        trace.operations,
        inputs,
        trace.outputs,
        kernels,
        groups,
        functions,
        texts or {},
        remark,
    )


class _Stages:
    """Looks at a module between passes: the kernels as chosen, scheduled and launched."""

    def __init__(self) -> None:
        self.chosen: list[tuple[str, Work]] = []
        self.schedules: dict[int, str] = {}
        self.calls: list[tuple[str, int, bool]] = []

    def observe(self, stage: str, module: ModuleOp) -> None:
        if stage == "saturate":
            for op in module.walk():
                if isinstance(op, FusedKernelOp):
                    number = len(self.chosen)
                    self.chosen.append((print_mlir(op), kernel_work(op)))
                    op.location = FileLineColLoc(StringAttr(NUMBERED), IntAttr(number), IntAttr(0))
        elif stage == "choose-schedules":
            for op in module.walk():
                if isinstance(op, FusedKernelOp) and op.schedule is not None:
                    entries = ", ".join(f"{k} = {v}" for k, v in op.schedule.values.items())
                    self.schedules[_number(op)] = entries
                    text, work = self.chosen[_number(op)]
                    unit = matrix_unit_of(op)
                    self.chosen[_number(op)] = text, replace(work, unit=unit or work.unit)
        elif stage == "plan-memory":
            found = [op for op in module.walk() if isinstance(op, KernelCallOp)]
            self.calls = [(op.kernel_name, _number(op), isinstance(op, LaunchOp)) for op in found]

    def explained(self, number: int, candidate: Candidate) -> ExplainedKernel:
        text, work = self.chosen[number]
        return ExplainedKernel(
            number,
            str(candidate.kind),
            (),
            candidate.price,
            work,
            text,
            self.schedules.get(number, ""),
            arranged=candidate.template.arranged,
        )


def _number(op: FusedKernelOp | KernelCallOp) -> int:
    location = op.location
    assert isinstance(location, FileLineColLoc) and location.filename.data == NUMBERED
    return location.line.data


def _measure(
    kernels: Sequence[ExplainedKernel],
    launches: Sequence[tuple[str, int]],
    times: Sequence[tuple[str, float]],
    merged: Sequence[MergedLaunch],
) -> str:
    """Gives the kernels their times, and to those of one launch their shares of its time by their
    prices; one that runs several times has the sum. A remark says which launches are several
    kernels, or that times are another compilation's.
    """
    told = "".join(f" {item}." for item in merged)
    if not times:
        return f"The program did not run: there are no measured times.{told}"
    rest, stages = iter(launches), {item.kernel: item.stages for item in merged}
    groups = [list(islice(rest, stages.get(name, 1))) for name, _ in times]
    expected = [
        name if name in stages else group[0][0]
        for (name, _), group in zip(times, groups, strict=True)
        if group
    ]
    if [name for name, _ in times] != expected or next(rest, None) is not None:
        return f"The run was of other kernels: its times are left out.{told}"
    for (_, seconds), group in zip(times, groups, strict=True):
        whole = sum(kernels[number].predicted for _, number in group) or 1.0
        for _, number in group:
            kernel = kernels[number]
            kernel.measured = (kernel.measured or 0.0) + seconds * kernel.predicted / whole
    shares = " The kernels of one launch have shares of its time by their prices."
    return f"{told}{shares * bool(merged)}".strip()


def _groups(
    kernels: Sequence[ExplainedKernel],
    chosen: Sequence[Candidate],
    trace: SaturateTrace,
    device: Device,
) -> list[Group]:
    assert trace.view is not None
    alternatives, derivations = Alternatives(trace, device), Derivations(trace)
    names = _Names(trace)
    groups: dict[str, Group] = {}
    for kernel, candidate in zip(kernels, chosen, strict=True):
        kernel.operations = names.body(candidate)
        if kernel.function in groups:
            groups[kernel.function].kernels.append(kernel)
            continue
        group = groups[kernel.function] = Group([kernel], derivations.steps_of(candidate))
        rivals, group.rival_count = alternatives.of(candidate)
        group.separate = alternatives.separately(candidate)
        group.rivals = [
            Rival(
                str(item.candidate.kind),
                names.body(item.candidate),
                len(item.candidate.results),
                item.candidate.price,
                item.change,
                tuple(" ".join(names.body(added)) for added in item.added),
                len(item.dropped),
            )
            for item in rivals
        ]
    return list(groups.values())


class _Names:
    """The operations of candidates by name."""

    def __init__(self, trace: SaturateTrace) -> None:
        assert trace.view is not None
        self.signatures = trace.view.signatures

    def body(self, candidate: Candidate) -> tuple[str, ...]:
        return tuple(self.signatures[number].name for _, number, _ in candidate.body)
