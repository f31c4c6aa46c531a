"""What saturation and extraction did, in figures: `str(report)` is for people, the fields for tests
and tools.
"""

from collections import Counter
from dataclasses import dataclass, field

PROVED = 1e-6
"""Relative gap up to which a choice is the best."""
SHOWN = 1e-4
"""The least gap that is told in figures."""
NEAR = 1e-3
"""Relative gap up to which a choice is as good as the best."""


@dataclass(frozen=True)
class PricedKernel:
    """A kernel that was taken or could have been: what it computes, in how many results, and its
    price in seconds. `arrangement` says how it is done in several kernels, with the price of all.
    """

    kind: str
    operations: tuple[str, ...]
    results: int
    price: float
    arrangement: str = ""

    def __str__(self) -> str:
        what = self.arrangement or " ".join(self.operations)
        written = f", writes {self.results} values" if self.results > 1 else ""
        return f"{self.price * 1e6:.1f} µs {self.kind}: {what}{written}"


@dataclass(frozen=True)
class KernelChoice:
    """A chosen kernel, how many are equal to it, and what was rejected in the first one's place,
    cheapest first. What is rejected may do less, so that another kernel has the rest to do.
    """

    chosen: PricedKernel
    count: int
    rejected: tuple[PricedKernel, ...]

    def __str__(self) -> str:
        lines = [f"{self.count} × {self.chosen}"]
        return "\n".join([*lines, *(f"  rejected {item}" for item in self.rejected)])


@dataclass(frozen=True)
class ExtractionReport:
    """What the choice of kernels came to: modelled seconds with a kernel an operation and with
    those chosen, a lower bound of any choice, whether the budget for extraction was spent before a
    proof, and what was rejected.
    """

    cost_before: float
    cost: float
    bound: float
    gap: float
    budget_spent: bool
    rejected: int
    choices: tuple[KernelChoice, ...]

    @property
    def proof(self) -> str:
        """How good the choice is for certain."""
        if self.gap <= PROVED:
            return "proved optimal"
        gap = f"gap {self.gap:.2%}" if self.gap >= SHOWN else f"gap less than {SHOWN:.2%}"
        return gap + " (budget spent)" * self.budget_spent


@dataclass
class SaturateReport:
    """Figures of one graph. Costs are modelled seconds; `bound` is a lower bound on the cost of any
    choice of candidates. `limits` says what kept the e-graph from its fixpoint, `left_out` which of
    the user's rules had no say in the choice, because they ran into one. `layer_copies` counts the
    layers whose part of the e-graph is a copy of another layer's. `kernels` are counted by kind, a
    launch each, and `prepared` are those of them that run only when parameters have changed;
    `arrangements` are those taken where there was a choice of them; `rejected` counts the
    candidates that were not chosen, and `choices` has those that could have written what a chosen
    kernel writes, with their prices. `passed_over` counts by reason the distinct candidates that
    were met and not kept. `assumes_moderate` says that rules acted which take parameters to be
    moderate. `layouts` has the cost of each layout of images, where there was a choice. `among` has
    the sizes at which the operations were chosen among which kernels were looked for, where these
    were not all.
    """

    graph: str = ""
    operations: int = 0
    classes: int = 0
    nodes: int = 0
    iterations: int = 0
    limits: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    assumes_moderate: bool = False
    layer_copies: int = 0
    fired: Counter[str] = field(default_factory=Counter[str])
    candidates: int = 0
    considered: int = 0
    passed_over: Counter[str] = field(default_factory=Counter[str])
    kernels: Counter[str] = field(default_factory=Counter[str])
    prepared: Counter[str] = field(default_factory=Counter[str])
    arrangements: Counter[str] = field(default_factory=Counter[str])
    rejected: int = 0
    choices: tuple[KernelChoice, ...] = ()
    cost_before: float = 0.0
    cost_after: float = 0.0
    bound: float = 0.0
    gap: float = 0.0
    budget_spent: bool = False
    remembered: bool = False
    among: str = ""
    components: int = 0
    distinct_components: int = 0
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    layouts: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def saturated(self) -> bool:
        """Whether the fixpoint was reached: no limit fired."""
        return not self.limits

    @property
    def is_repeatable(self) -> bool:
        """Whether saturating and choosing again comes to the same: the fixpoint was reached, and no
        clock had a say. Work is counted, so a choice that had too little of it is the same, too.
        """
        return self.saturated

    @property
    def is_settled(self) -> bool:
        """Whether a better choice is not to be had by a larger budget: the fixpoint was reached,
        and the choice is near the best, or not for want of work.
        """
        return self.saturated and (not self.budget_spent or self.gap <= NEAR)

    @property
    def fixpoint(self) -> str:
        """Whether the fixpoint was reached, and what was in the way."""
        if self.saturated:
            return "yes"
        left = f"; chosen without {', '.join(self.left_out)}" if self.left_out else ""
        return f"no (stopped at {', '.join(self.limits)}{left})"

    @property
    def kernel_count(self) -> int:
        return sum(self.kernels.values())

    @property
    def extraction(self) -> ExtractionReport:
        """The figures of the choice."""
        return ExtractionReport(
            self.cost_before,
            self.cost_after,
            self.bound,
            self.gap,
            self.budget_spent,
            self.rejected,
            self.choices,
        )

    @property
    def left_out_text(self) -> str:
        """What was met and not kept, by reason."""
        return "; ".join(f"{count} {why}" for why, count in self.passed_over.most_common())

    @property
    def _kernels(self) -> str:
        """The kernels of each run by kind, and those that run only when parameters have changed."""
        run = self.kernels - self.prepared
        texts = [f"{run.total()} in each run" + _listing(run)]
        if self.prepared:
            texts.append(
                f"{self.prepared.total()} prepared when parameters change" + _listing(self.prepared)
            )
        return "; ".join(texts)

    def __str__(self) -> str:
        fired = ", ".join(f"{name} {count}" for name, count in self.fired.most_common())
        times = ", ".join(f"{stage} {value * 1e3:.1f}" for stage, value in self.seconds.items())
        lines = [
            f"saturate @{self.graph}",
            f"  operations read      {self.operations}",
            f"  e-graph              {self.classes} classes, {self.nodes} nodes, "
            f"{self.iterations} iterations, saturated: {self.fixpoint}"
            + (f", {self.layer_copies} equal layers copied" if self.layer_copies else ""),
            f"  rules fired          {fired or 'none'}",
            f"  candidates           {self.candidates} from {self.considered} distinct cuts, "
            f"{self.rejected} rejected, "
            f"{self.components} components ({self.distinct_components} solved)",
            f"  kernels chosen       {self._kernels}",
            f"  modelled cost        {self.cost_before * 1e6:.1f} µs with a kernel an operation, "
            f"{self.cost_after * 1e6:.1f} µs now",
            f"  lower bound          {self.bound * 1e6:.1f} µs for any choice of candidates: "
            f"{self.extraction.proof}",
            f"  time in ms           {times}",
        ]
        if self.arrangements:
            taken = [f"{count} × {text}" for text, count in self.arrangements.most_common()]
            lines.insert(6, f"  arrangements         {'; '.join(taken)}")
        if self.passed_over:
            lines.insert(5, f"  left out             {self.left_out_text}")
        if self.layouts:
            costs = [f"{name} {cost * 1e6:.1f} µs" for name, cost in self.layouts.items()]
            lines.append(f"  layout of images     {', '.join(costs)}")
        if self.assumes_moderate:
            lines.append("  taken for granted    no element of a parameter is above 2^20 in size")
        if self.among:
            lines.append(f"  operations           those chosen for {self.among}")
        if self.remembered:
            lines.append("  choice               remembered from an equal graph")
        return "\n".join(lines)


def _listing(kernels: Counter[str]) -> str:
    """Kernels by kind, in brackets, where there are some."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(kernels.items()))
    return f" ({kinds})" if kinds else ""
