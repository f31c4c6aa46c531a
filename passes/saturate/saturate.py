"""The pass `saturate`: e-graph, kernel candidates, extraction, and kernels in place of operations.

%0 = mgn.matmul(%x, %w) : …          %y = fusion.kernel contraction (%a = %x : …, %b = %w : …) ->
(…) { %1 = mgn.sigmoid(%0) : …       ⟶       %0 = mgn.matmul(%a, %b) : … %y = mgn.mul(%0, %1) : …
%1 = mgn.silu(%0) : … mgn.return %y : …                      fusion.return %1 : … }
                                     mgn.return %y : …
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from mgn.diagnostics import MgnError, clipped
from mgn.dialects.garbage import collector_paused
from mgn.dialects.kernel.device import Device
from mgn.dialects.mgn.operation import TensorOp
from mgn.dialects.mgn.structure import PRECISION, STORED, GraphOp, graphs_of
from mgn.passes.saturate.candidates.baseline import price_of_separate_kernels
from mgn.passes.saturate.candidates.candidates import CandidateSet
from mgn.passes.saturate.candidates.limits import CutLimits
from mgn.passes.saturate.check import check_selection
from mgn.passes.saturate.delayed_updates import delay_updates
from mgn.passes.saturate.egraph.engine import SaturatedGraph, saturate_facts
from mgn.passes.saturate.egraph.layer_copies import saturate_layers
from mgn.passes.saturate.egraph.runaway import is_worth_a_choice, rules_to_leave_out
from mgn.passes.saturate.egraph.view import Signature, View, make_view
from mgn.passes.saturate.egraph.wide_products import WIDE_PRODUCTS
from mgn.passes.saturate.encoding.encode import EncodedGraph, encode_graph
from mgn.passes.saturate.encoding.facts import Facts
from mgn.passes.saturate.explain.alternatives import choices_of
from mgn.passes.saturate.explain.trace import SaturateTrace
from mgn.passes.saturate.extraction.extract import Extraction
from mgn.passes.saturate.extraction.report import SaturateReport
from mgn.passes.saturate.extraction.unread_results import drop_unread
from mgn.passes.saturate.layouts.choice import turn_as, with_best_layout
from mgn.passes.saturate.memo import Choice, choice_key, choice_of, recall, remember
from mgn.passes.saturate.narrow_results import narrow_results
from mgn.passes.saturate.options import SaturateOptions
from mgn.passes.saturate.prices.scheduled import is_possible
from mgn.passes.saturate.prices.time_loops import is_never_unrolled
from mgn.passes.saturate.rebuild import rebuild_graph
from mgn.passes.saturate.rules.rule import Rule, RuleClass
from mgn.passes.saturate.rules.table import CLASS_SETS, rules_of
from mgn.passes.saturate.search import Search, timed
from mgn.passes.saturate.sharing.names import structure_of
from mgn.passes.saturate.sharing.narrow import narrowed


def saturate_graph(
    graph: GraphOp,
    device: Device,
    options: SaturateOptions | None = None,
    trace: SaturateTrace | None = None,
) -> SaturateReport:
    """Rewrites a graph in place into kernels, and reports what was done.

    A `trace` gets what explains the choice, which is then made afresh.
    """
    with collector_paused():
        return _saturate(graph, device, options or SaturateOptions(), trace)


def _saturate(
    graph: GraphOp, device: Device, options: SaturateOptions, trace: SaturateTrace | None
) -> SaturateReport:
    seconds: dict[str, float] = {}
    choice = choice_for(graph, device, options, seconds, trace)
    view, report = choice.view_at(graph), replace(choice.report, seconds=seconds)
    with timed(seconds, "check"):
        check_selection(view, choice.found, choice.selection, device)
    with timed(seconds, "rebuild"):
        rebuild_graph(graph, view, choice.found, choice.selection)
    return report


def choice_for(
    graph: GraphOp,
    device: Device,
    options: SaturateOptions,
    seconds: dict[str, float],
    trace: SaturateTrace | None = None,
) -> Choice:
    """The kernels for a graph, which stays as it is; `seconds` gets what each stage takes."""
    rules = _rules_for(options)
    with timed(seconds, "compare"):
        key = choice_key(graph, device, options, rules)
        choice = recall(key) if options.memoise and trace is None else None
    if choice is not None:
        return replace(choice, report=replace(choice.report, remembered=True))
    task = _Task(graph, device, options, seconds)
    choice = _choose_among_known(task, rules, trace) or _choose(task, rules, trace)
    if choice.report.saturated and options.memoise:
        remember(key, choice)
    return choice


def _rules_for(options: SaturateOptions) -> list[Rule]:
    """The rules that may act."""
    rules = rules_of(options.classes) if options.fuse else []
    return [rule for rule in rules if options.moderate or not rule.assumes_moderate]


@dataclass(frozen=True)
class _Task:
    """A graph to choose kernels for; `seconds` gets what each stage takes."""

    graph: GraphOp
    device: Device
    options: SaturateOptions
    seconds: dict[str, float]

    def stands(self, op: TensorOp) -> bool:
        """Whether a composite is computed as it stands, whatever its parts are rewritten to."""
        return _holds_composites(self.options) and is_never_unrolled(op, self.device)


@dataclass(frozen=True)
class _Way:
    """A graph as some rules rewrite it, with what it cost before; the trace of it, where one is
    kept.
    """

    rules: list[Rule]
    cost_before: float
    encoded: EncodedGraph
    saturated: SaturatedGraph
    trace: SaturateTrace | None


def _choose_among_known(
    task: _Task, rules: list[Rule], trace: SaturateTrace | None
) -> Choice | None:
    """Chooses among the operations that were chosen at another size, by the rules that acted there.
    None where there is no such size, the graph is another one, or a limit fires.
    """
    reference = task.options.reference
    with timed(task.seconds, "compare"):
        if reference is None or structure_of(task.graph) != reference.source.structure:
            return None
    source = reference.source
    acted = [rule for rule in rules if rule.name in source.rules]
    widen = any(rule.name in source.rules for rule in WIDE_PRODUCTS)
    way = _saturated_way(task, acted, trace, widen)
    if not way.saturated.saturated:
        return None
    whole = _view_of(task, way)
    with timed(task.seconds, "view"):
        view = narrowed(whole, reference)
    choice = _chosen(task, way, view, task.options.extract_budget)
    choice.report.among = source.sizes
    if trace is not None and way.trace is not None:
        trace.take(way.trace)
    return choice


def _choose(task: _Task, rules: list[Rule], trace: SaturateTrace | None) -> Choice:
    """Saturates, finds candidates and extracts: where a limit fires, without the user's rules that
    may be why, and with what came of them only where that is cheaper.
    """
    first = way = _saturated_way(task, rules, trace)
    while suspects := rules_to_leave_out(way.saturated, way.rules):
        way = _saturated_way(task, [rule for rule in way.rules if rule not in suspects], trace)
    choice = _chosen(task, way, _view_of(task, way), task.options.extract_budget)
    if way is not first and is_worth_a_choice(first.saturated):
        budget = task.options.extract_budget / 4
        besides = _chosen(task, first, _view_of(task, first), budget)
        if besides.selection.cost < choice.selection.cost:
            choice, way = besides, first
    choice.report.limits = first.saturated.limits
    acting = {rule.name for rule in way.rules}
    choice.report.left_out = tuple(rule.name for rule in rules if rule.name not in acting)
    if trace is not None and way.trace is not None:
        trace.take(way.trace)
    return choice


def _saturated_way(
    task: _Task, rules: list[Rule], trace: SaturateTrace | None, widen: bool = True
) -> _Way:
    """The graph saturated with some rules, and products put side by side where that may be."""
    with timed(task.seconds, "encode"):
        encoded = encode_graph(task.graph, literals_of(rules), task.stands)
    kept = None if trace is None else SaturateTrace()
    if kept is not None:
        kept.note_program(task.graph, encoded)
        kept.rules = {rule.name: rule for rule in (*rules, *WIDE_PRODUCTS)}
    with timed(task.seconds, "price before"):
        cost_before = price_of_separate_kernels(encoded, len(task.graph.overwritten), task.device)
    with timed(task.seconds, "saturate"):
        widen = widen and _widens(task.options)
        saturated = _saturated(encoded.facts, task.options, rules, kept, widen)
    return _Way(rules, cost_before, encoded, saturated, kept)


def _view_of(task: _Task, way: _Way) -> View:
    """The classes of a graph as rules rewrite it."""
    options = task.options
    with timed(task.seconds, "view"):
        whole = whole_composites(options, task.device)
        view = make_view(way.saturated, way.encoded.outputs, whole, options.prepare)
        class_of = way.saturated.class_of
        return replace(view, values=[class_of[value] for value in range(way.encoded.values)])


def _chosen(task: _Task, way: _Way, view: View, extract_budget: float) -> Choice:
    """The kernels for a graph as rules rewrite it: of a small one the best of all."""
    device, options, seconds = task.device, task.options, task.seconds
    report = SaturateReport(task.graph.sym_name.data, way.encoded.operations)
    _describe_egraph(report, way.saturated)
    report.cost_before = way.cost_before
    report.assumes_moderate = any(
        rule.assumes_moderate and way.saturated.fired[rule.name] for rule in way.rules
    )
    view.note_states(task.graph.overwritten)
    view.spreads = RuleClass.SPREADS in options.classes
    computed = sum(value.leaf is None for value in view.classes.values())
    limits = limits_of(options).for_size(computed)
    searched = Search(view, device, limits, options.fuse, seconds).best(extract_budget)
    found = searched.found
    with timed(seconds, "extract"):
        selection = drop_unread(view, found, searched.extraction.selection, device)
        selection = delay_updates(view, found, selection)
        bound = min(searched.extraction.bound, selection.cost)
        extraction = replace(searched.extraction, selection=selection, bound=bound)
        _describe_extraction(report, view, found, extraction)
        report.choices = choices_of(view, found, selection)
    if way.trace is not None:
        way.trace.saturated, way.trace.view = way.saturated, view
        way.trace.found, way.trace.selection = found, selection
    return choice_of(task.graph, view, found, selection, report)


def _saturated(
    facts: Facts,
    options: SaturateOptions,
    rules: list[Rule],
    trace: SaturateTrace | None,
    widen: bool,
) -> SaturatedGraph:
    """The saturated graph of a program; what is to be explained is saturated as a whole."""
    budget = options.time_budget
    if trace is not None:
        return saturate_facts(facts, rules, budget, trail=trace.applications, widen=widen)
    found = saturate_layers(facts, rules, budget, widen) if options.memoise else None
    return found or saturate_facts(facts, rules, budget, widen=widen)


def limits_of(options: SaturateOptions) -> CutLimits:
    """The bounds of kernels: one operation each without fusing; the same bits with exact rules."""
    exact = options.classes <= {RuleClass.EXACT}
    operations = options.limits.operations if options.fuse else 1
    return replace(options.limits, operations=operations, keep_bits=exact, memoise=options.memoise)


def saturated_view(graph: GraphOp, options: SaturateOptions | None = None) -> View:
    """The saturated classes of a graph, for tools that look at them; the graph stays as it is."""
    options = options or SaturateOptions()
    rules = rules_of(options.classes)
    encoded = encode_graph(graph, literals_of(rules))
    saturated = saturate_facts(encoded.facts, rules, options.time_budget, widen=_widens(options))
    return make_view(saturated, encoded.outputs, whole_composites(options), options.prepare)


def whole_composites(
    options: SaturateOptions, device: Device | None = None
) -> Callable[[Signature], bool]:
    """Which composites kernels may compute as they stand: their templates sum in another order
    than the decompositions do, and some are too large for a device.
    """
    allowed = _holds_composites(options)
    if not allowed or device is None:
        return lambda signature: allowed
    return lambda signature: is_possible(signature, device)


def _holds_composites(options: SaturateOptions) -> bool:
    return options.fuse and RuleClass.REASSOCIATES in options.classes


def _widens(options: SaturateOptions) -> bool:
    """Whether products may be put side by side: that reassociates, and derives parameters."""
    return options.fuse and options.prepare and RuleClass.REASSOCIATES in options.classes


def literals_of(rules: list[Rule]) -> list[float]:
    """The numbers that left sides name."""
    return list(dict.fromkeys(value for rule in rules for value in rule.literals))


def _describe_egraph(report: SaturateReport, graph: SaturatedGraph) -> None:
    report.classes, report.nodes = graph.class_count, graph.node_count
    report.iterations = graph.iterations
    report.fired, report.layer_copies = graph.fired, graph.layer_copies


def _describe_extraction(
    report: SaturateReport, view: View, found: CandidateSet, extraction: Extraction
) -> None:
    chosen = [found.candidates[number] for number in extraction.selection.kernels]
    report.kernels = Counter(str(candidate.kind) for candidate in chosen)
    report.prepared = Counter(
        str(item.kind) for item in chosen if view.classes[item.results[0]].prepared
    )
    arranged = [item.template.arranged for item in chosen]
    report.arrangements = Counter(item.text for item in arranged if item is not None)
    report.candidates, report.considered = len(found.candidates), found.considered
    report.passed_over = +found.left_out
    report.rejected = len(found.candidates) - len(chosen)
    report.cost_after, report.bound = extraction.selection.cost, extraction.bound
    report.gap, report.budget_spent = extraction.gap, extraction.budget_spent
    report.components, report.distinct_components = extraction.components, extraction.distinct


@dataclass(frozen=True)
class Saturate(ModulePass):
    """Rewrites every graph of a module into kernels for the module's device.

    Options, as in `SaturateOptions`: `rules`, the classes that may act, joined by `+`; `time` and
    `extract`, seconds for saturation and for extraction; `fuse=false` gives each operation a kernel
    of its own; `prepare=false` computes in every run also what parameters alone decide;
    `moderate=false` takes nothing for granted of their values; `memoise=false` decides equal
    regions each for itself.
    """

    name = "saturate"

    rules: str = "exact+reassociates"
    time: float = SaturateOptions.time_budget
    extract: float = SaturateOptions.extract_budget
    fuse: bool = True
    prepare: bool = True
    moderate: bool = True
    memoise: bool = True
    options: SaturateOptions = field(init=False, compare=False)
    trace: SaturateTrace | None = field(default=None, init=False, compare=False)
    reports: list[SaturateReport] = field(
        default_factory=list[SaturateReport], init=False, compare=False
    )

    def __post_init__(self) -> None:
        try:
            options = SaturateOptions(
                _rule_classes(self.rules),
                self.time,
                self.extract,
                self.fuse,
                self.prepare,
                self.moderate,
                self.memoise,
            )
        except MgnError as error:
            raise ValueError(str(error)) from None
        object.__setattr__(self, "options", options)

    @classmethod
    def of(cls, options: SaturateOptions | None, trace: SaturateTrace | None = None) -> "Saturate":
        """The pass with options of `saturate_graph`, and a trace that gets what explains the last
        graph.
        """
        made = cls()
        if options is not None:
            object.__setattr__(made, "options", options)
        object.__setattr__(made, "trace", trace)
        return made

    @property
    def report(self) -> SaturateReport | None:
        """What was done to the last graph."""
        return self.reports[-1] if self.reports else None

    def options_for(self, op: ModuleOp) -> SaturateOptions:
        """The options for a module, whose products' operands a precision may round."""
        return self.options.with_roundings if PRECISION in op.attributes else self.options

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        device = Device.of(op)
        options = self.options_for(op)
        for graph in list(graphs_of(op)):
            self.reports.append(_in_best_layout(graph, device, options, self.trace))
            if STORED in op.attributes:
                narrow_results(graph, cast(StringAttr, op.attributes[STORED]))


def _in_best_layout(
    graph: GraphOp, device: Device, options: SaturateOptions, trace: SaturateTrace | None
) -> SaturateReport:
    """Rewrites a graph into kernels, its images with their channels last where that is cheaper, or
    was so at the size whose operations are known.
    """

    def choose(graph: GraphOp) -> SaturateReport:
        return saturate_graph(graph, device, options)

    def settle(graph: GraphOp) -> SaturateReport:
        return saturate_graph(graph, device, options, trace)

    if not options.has_layouts:
        return settle(graph)
    if options.reference is not None and turn_as(graph, options.reference.source):
        return settle(graph)
    return with_best_layout(graph, choose, settle)


def _rule_classes(text: str) -> frozenset[RuleClass]:
    """The classes that a text names, joined by `+`; `fast` brings the default ones along. MgnError
    for a name of none.
    """
    found: set[RuleClass] = set()
    for name in (part.strip() for part in text.split("+")):
        if name not in list(RuleClass):
            known = ", ".join(RuleClass)
            raise MgnError(f"there is no class of rules '{clipped(name)}'; there are {known}")
        found |= CLASS_SETS.get(name, {RuleClass(name)})
    return frozenset(found)
