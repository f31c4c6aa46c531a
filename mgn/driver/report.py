"""What the compiler did to a program, as numbers and as text.

In: what the passes and the runtime noted. Out: `OptimizeReport`, whose `str()` is for people.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from mgn.dialects.kernel.device import Device
from mgn.dialects.places import PHASES
from mgn.driver.handed_over import HandedOver
from mgn.driver.kernel_work import Work
from mgn.driver.precision import STORED
from mgn.driver.quantities import bytes_text, counted, seconds_text
from mgn.driver.report_json import plain_report, report_text
from mgn.runtime.checkpoints.load import LoadReport

ROOFLINE = (
    "the time that the device's arithmetic and bandwidth allow, its cache's where all that a "
    "launch moves fits into it; what lies in a nearer cache can take less, and is above 100 %"
)
"""What times are compared with, in words."""


@dataclass(frozen=True)
class KernelLine:
    """One launch: the kernel's name, its kind, the operations it computes and the least work; and
    the parts of a training step that these belong to, as far as that is known.
    """

    name: str
    kind: str
    operations: tuple[str, ...]
    work: Work
    phases: tuple[str, ...] = ()


@dataclass(frozen=True)
class RepeatedKernel:
    """A kernel that runs again in a run, how often, and the seconds of that by its price."""

    kernel: str
    launches: int
    seconds: float


@dataclass(frozen=True)
class BudgetReport:
    """A budget of device memory in bytes, and what a program takes at its peak: the arena and all
    beside it. `seconds` is what the kernels take that run again, `bound` the least that this can
    be as `mgn.passes.rematerialise.programme` puts it, `total` what all kernels take without. With
    `early`, states are written before all else is done.
    """

    budget: int
    peak: int
    repeated: tuple[RepeatedKernel, ...]
    seconds: float
    bound: float
    total: float
    early: bool


@dataclass(frozen=True)
class MemoryReport:
    """Bytes: the arena, what all that kernels write would take there without sharing, the most that
    live at once; and besides the arena what derives from parameters. `budget` is how it got into
    the memory that it may take, if that was limited.
    """

    arena: int
    tensors: int
    lower_bound: int
    derived: int = 0
    budget: BudgetReport | None = None


@dataclass(frozen=True)
class DerivedParameter:
    """A value that is computed when parameters are set: its bytes, the kernel that makes it, and
    the parameters that it depends on.
    """

    bytes: int
    kernel: str
    parameters: tuple[str, ...]


@dataclass(frozen=True)
class MergedLaunch:
    """Several kernels in one launch: how many, with how many barriers of the device between them,
    on groups of how many work-items, and the seconds that this saves by the prices.
    """

    kernel: str
    stages: int
    barriers: int
    items: int
    saved: float

    def __str__(self) -> str:
        return (
            f"{self.kernel} is {counted(self.stages, 'kernel')} in one launch, with "
            f"{counted(self.barriers, 'barrier')}, in groups of {self.items}: "
            f"{seconds_text(self.saved)} less by its price"
        )


def together(name: str, lines: Sequence[KernelLine]) -> KernelLine:
    """Several launches as one."""
    works = [line.work for line in lines]
    units = {work.unit for work in works}
    largest = max(works, key=lambda work: work.operations)
    work = Work(
        sum(work.bytes for work in works),
        sum(work.operations for work in works),
        largest.element,
        units.pop() if len(units) == 1 else "",
    )
    operations = tuple(op for line in lines for op in line.operations)
    met = {phase for line in lines for phase in line.phases}
    return KernelLine(name, "resident", operations, work, tuple(p for p in PHASES if p in met))


def phase_text(phases: Sequence[str]) -> str:
    """The parts of a training step that a kernel belongs to, in words."""
    return " and ".join(phases)


def phase_counts(lines: Sequence[KernelLine]) -> dict[str, int]:
    """How many launches belong to each part of a training step, or to several; nothing where all
    belong to one, as those of a program without gradients do.
    """
    counts = Counter(line.phases for line in lines if line.phases)
    if len({phase for phases in counts for phase in phases}) < 2:
        return {}
    return {phase_text(phases): counts[phases] for phases in sorted(counts, key=_phase_order)}


def _phase_order(phases: tuple[str, ...]) -> list[int]:
    return [PHASES.index(phase) for phase in phases]


@dataclass(frozen=True)
class TuningReport:
    """Tuned schedules: how many came from earlier searches, and what this search found.

    `before` and `after` are the seconds of all launches of the kernels that were measured.
    """

    recalled: int = 0
    seconds: float = 0.0
    kernels: int = 0
    tried: int = 0
    won: int = 0
    before: float = 0.0
    after: float = 0.0

    def __str__(self) -> str:
        if not self.seconds:
            return f"{counted(self.recalled, 'distinct kernel')} with a tuned schedule"
        return (
            f"tuned for {seconds_text(self.seconds)}: {counted(self.tried, 'schedule')} of "
            f"{counted(self.kernels, 'kernel')} tried, {self.won} better than the one chosen; "
            f"their launches {seconds_text(self.before)} → {seconds_text(self.after)}"
        )


@dataclass
class OptimizeReport:
    """From a graph to kernels: operations before, kernels after, cost, memory and times.

    `kernels` are the launches of a run, `merged` those that are several kernels; `prepared` those
    that run when parameters have changed, `derived` what they make, `prepare_seconds` what that
    took the last time. `saturation` is the e-graph's own report: e-classes, e-nodes, rules fired;
    `extraction` its part on the choice of kernels, with those rejected and their prices.
    `handed_over` has the bytes that kernels of a run hand to one another, by element types.
    `loaded` says which checkpoint the parameters came from, and what was converted.
    `recalled` says that an equal program was compiled before, and its kernels and plan were kept.
    """

    graph: str
    device: Device
    operations_before: int
    precision: str = "f32"
    kernels: list[KernelLine] = field(default_factory=list[KernelLine])
    prepared: list[KernelLine] = field(default_factory=list[KernelLine])
    derived: list[DerivedParameter] = field(default_factory=list[DerivedParameter])
    merged: list[MergedLaunch] = field(default_factory=list[MergedLaunch])
    prepare_seconds: float | None = None
    saturation: object | None = None
    tuning: TuningReport | None = None
    memory: MemoryReport | None = None
    handed_over: list[HandedOver] = field(default_factory=list[HandedOver])
    times: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    distinct_kernels: int = 0
    from_cache: int = 0
    recalled: bool = False
    measured_seconds: float | None = None
    loaded: LoadReport | None = None

    @property
    def extraction(self) -> object | None:
        """What the choice of kernels came to; None where nothing was chosen."""
        return getattr(self.saturation, "extraction", None)

    @property
    def compile_seconds(self) -> float:
        """The sum of all steps."""
        return sum(seconds for _, seconds in self.times)

    @property
    def is_repeatable(self) -> bool:
        """Whether compiling again comes to the same: no clock had a say."""
        return self.saturation is None or bool(getattr(self.saturation, "is_repeatable", True))

    @property
    def roofline_seconds(self) -> float:
        """The time of all launches of a run by the roofline."""
        return sum(line.work.roofline_seconds(self.device) for line in self.kernels)

    @property
    def operations_text(self) -> str:
        """The operations that the program is written with, and those left for the e-graph."""
        written = f"{counted(self.operations_before, 'operation')} as written"
        left = getattr(self.saturation, "operations", self.operations_before)
        return written if left == self.operations_before else f"{written} ({left} simplified)"

    @property
    def kernels_text(self) -> str:
        """The kernels of each run, and those that run only when parameters have changed."""
        prepared = f" and {len(self.prepared)} prepared when parameters change"
        merged = sum(item.stages for item in self.merged)
        kernels = len(self.kernels) - len(self.merged) + merged
        launches = f" in {len(self.kernels)} launch{'' if len(self.kernels) == 1 else 'es'}"
        return (
            f"{counted(kernels, 'kernel')} in each run"
            + launches * bool(merged)
            + prepared * bool(self.prepared)
        )

    def to_dict(self) -> dict[str, Any]:
        """The report as lists, dicts, numbers and texts; `docs/usage.md` has its schema."""
        return plain_report(self)

    def to_json(self) -> str:
        """The same as a text of JSON."""
        return report_text(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        rounded = "" if self.precision == "f32" else f", products in {self.precision}"
        lines = [f"graph {self.graph} for {self.device.name}{rounded}"]
        if self.saturation is not None:
            lines += [f"  {line}" for line in str(self.saturation).splitlines()]
        lines.append(f"  {self.operations_text} became {self.kernels_text}")
        if self.handed_over and self.precision in STORED:
            lines.append(f"  kernels hand over {', '.join(map(str, self.handed_over))}")
        if counts := phase_counts(self.kernels):
            listing = ", ".join(f"{phase} {count}" for phase, count in counts.items())
            lines.append(f"  launches by the part of the step: {listing}")
        if self.memory is not None:
            lines.append(f"  {memory_line(self.memory)}")
            lines += [f"  {line}" for line in budget_lines(self.memory.budget)]
        lines += [f"  {item}" for item in self.merged]
        lines += self._prepared_lines()
        if self.loaded is not None:
            lines += [f"  {line}" for line in str(self.loaded).splitlines()]
        if self.tuning is not None:
            lines.append(f"  {self.tuning}")
        cost = f"  roofline of all kernels {seconds_text(self.roofline_seconds)}"
        if self.measured_seconds is not None:
            cost += f", measured {seconds_text(self.measured_seconds)}"
        lines.append(cost)
        if self.distinct_kernels:
            lines.append(
                f"  {counted(self.distinct_kernels, 'distinct kernel')}, "
                f"{self.from_cache} from the cache"
            )
        how = "recalled" if self.recalled else "compiled"
        steps = ", ".join(f"{name} {seconds_text(seconds)}" for name, seconds in self.times)
        lines.append(f"  {how} in {seconds_text(self.compile_seconds)}: {steps}")
        return lines

    def _prepared_lines(self, most: int = 6) -> list[str]:
        """What is computed once, when parameters are set."""
        if not self.prepared:
            return []
        line = f"  {counted(len(self.prepared), 'kernel')} prepared when parameters change"
        if self.derived:
            size = bytes_text(sum(item.bytes for item in self.derived))
            line += f": {counted(len(self.derived), 'derived parameter')}, {size}"
        if self.prepare_seconds is not None:
            line += f", last in {seconds_text(self.prepare_seconds)}"
        rest = len(self.derived) - most
        listed = [_derived_line(item) for item in self.derived[:most]]
        return [line, *listed, *([f"    … and {rest} more"] if rest > 0 else [])]


def _derived_line(item: DerivedParameter, most: int = 4) -> str:
    names = ", ".join(item.parameters[:most]) + (" …" if len(item.parameters) > most else "")
    return f"    {bytes_text(item.bytes)} by {item.kernel} from {names or 'constants'}"


def memory_line(memory: MemoryReport) -> str:
    """The memory plan in one line."""
    return (
        f"arena {bytes_text(memory.arena)} for what kernels write, "
        f"{bytes_text(memory.tensors)} without sharing; "
        f"at most {bytes_text(memory.lower_bound)} in use at once"
    )


def budget_lines(budget: BudgetReport | None, most: int = 6) -> list[str]:
    """What a budget of memory led to; nothing where there is none."""
    if budget is None:
        return []
    how = ", with states written as soon as they can be" * budget.early
    lines = [
        f"at most {bytes_text(budget.peak)} of device memory, of a budget of "
        f"{bytes_text(budget.budget)}{how}"
    ]
    if not budget.repeated:
        return lines
    count = sum(item.launches for item in budget.repeated)
    share = 100 * budget.seconds / (budget.total or 1.0)
    lines.append(
        f"{count} launch{'' if count == 1 else 'es'} computed twice for that: "
        f"{seconds_text(budget.seconds)}, {share:.2g} % more, {_bound_text(budget)}"
    )
    longest = sorted(budget.repeated, key=lambda item: (-item.seconds, item.kernel))
    lines += [
        f"  {item.launches} of {item.kernel}, {seconds_text(item.seconds)}"
        for item in longest[:most]
    ]
    rest = len(longest) - most
    return [*lines, *([f"  … and {rest} more kernels"] if rest > 0 else [])]


def _bound_text(budget: BudgetReport) -> str:
    """How near the seconds of what runs again are to the least that they can be."""
    if not budget.bound or budget.seconds < budget.bound:
        return "with no bound to compare with"
    gap = budget.seconds / budget.bound - 1.0
    return f"{100 * gap:.2g} % above the bound for its order"


def kernel_table(
    kernels: Sequence[KernelLine], seconds: Sequence[float], device: Device, most: int = 40
) -> str:
    """Time, bytes, throughput and share of the roofline of each kernel over its launches.

    The kernels that took longest come first.
    """
    rows = _rows(kernels, seconds)
    total = sum(seconds) or 1.0
    wide = max(map(len, phase_counts(kernels)), default=0)
    part = f"  {'part':{wide}}" if wide else ""
    lines = [f"  launches       time  share      bytes    GB/s  GFLOP/s  roofline{part}  kernel"]
    for row in rows[:most]:
        taken = max(row.seconds, 1e-9)
        least = row.roofline_seconds(device)
        moved = row.launches * row.line.work.bytes
        computed = row.launches * row.line.work.operations
        part = f"  {phase_text(row.line.phases):{wide}}" if wide else ""
        lines.append(
            f"  {row.launches:8d} {seconds_text(taken):>10} {100 * taken / total:5.1f}%"
            f" {bytes_text(moved):>10} {moved / taken / 1e9:7.1f} {computed / taken / 1e9:8.1f}"
            f" {100 * least / taken:8.1f}%{part}  {row.line.name}: {_shown(row.line.operations)}"
        )
    if any(row.roofline_seconds(device) > row.seconds for row in rows[:most]):
        lines.append(f"  {'':8} The roofline is {ROOFLINE}.")
    if len(rows) > most:
        rest = sum(row.seconds for row in rows[most:])
        lines.append(f"  {'':8} {seconds_text(rest):>10} {100 * rest / total:5.1f}%  others")
    lines.append(f"  {len(kernels):8d} {seconds_text(sum(seconds)):>10} all")
    return "\n".join(lines)


@dataclass
class _Row:
    line: KernelLine
    launches: int = 0
    seconds: float = 0.0

    def roofline_seconds(self, device: Device) -> float:
        return self.launches * self.line.work.roofline_seconds(device)


def _rows(kernels: Sequence[KernelLine], seconds: Sequence[float]) -> list[_Row]:
    """Launches of one kernel together, the longest time first."""
    rows: dict[tuple[str, Work, tuple[str, ...]], _Row] = {}
    for line, taken in zip(kernels, seconds, strict=True):
        row = rows.setdefault((line.name, line.work, line.phases), _Row(line))
        row.launches += 1
        row.seconds += taken
    return sorted(rows.values(), key=lambda row: -row.seconds)


def _shown(operations: Sequence[str], most: int = 8) -> str:
    counted = Counter(operations)
    names = [f"{name}×{count}" if count > 1 else name for name, count in counted.items()]
    return " ".join(names[:most]) + (" …" if len(names) > most else "")
