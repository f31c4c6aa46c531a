"""The passes by name, the pipelines made of them, and how a pipeline runs.

In: a pipeline's text (`simplify,plan-memory{alignment=512}`, or the name of a pipeline) and a
module. Out: the module, changed in place. A `Watcher` sees the module before and after every pass.
"""

import difflib
import importlib
import inspect
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassOptionInfo, get_pass_option_infos
from xdsl.utils.arg_spec import ArgSpec, ParameterListType, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException

from mgn.diagnostics import MgnError, argument_name
from mgn.dialects.garbage import collector_paused


@dataclass(frozen=True)
class PassRow:
    """Where a pass is, and what it does in a line. The module is imported when the pass is used.

    `own` is the class of a pass that a user registered.
    """

    module: str
    summary: str
    own: type[ModulePass] | None = None


PASSES: dict[str, PassRow] = {
    "raise-checks": PassRow(
        "mgn.passes.raise_checks", "what is to be checked becomes results of its graph"
    ),
    "mixed-precision": PassRow(
        "mgn.passes.mixed_precision", "what products read and give becomes of half precision"
    ),
    "training-step": PassRow(
        "mgn.training.step.step_pass", "a graph with a loss becomes the step that lowers it"
    ),
    "differentiate": PassRow(
        "mgn.passes.differentiate", "gradients become the operations that compute them"
    ),
    "thread-states": PassRow(
        "mgn.passes.thread_states", "states become arguments and results of their graphs"
    ),
    "unpack-blocks": PassRow(
        "mgn.passes.unpack_blocks", "parameters of block formats are read as their parts"
    ),
    "simplify": PassRow("mgn.passes.simplify", "canonical forms, constant folding, CSE and DCE"),
    "store-activations": PassRow(
        "mgn.passes.store_activations", "what kernels hand to one another becomes of half precision"
    ),
    "convert-precision": PassRow(
        "mgn.passes.convert_precision", "rounds the operands of f32 products for matrix units"
    ),
    "saturate": PassRow("mgn.passes.saturate", "rewrites and cuts graphs into kernels by e-graph"),
    "arrange-kernels": PassRow(
        "mgn.passes.saturate.arrange_kernels",
        "hand-written kernels as several or on matrix units, as prices say",
    ),
    "read-panels": PassRow(
        "mgn.passes.arrangements.read_panels",
        "tables that products read in panels are looked up there",
    ),
    "choose-schedules": PassRow(
        "mgn.passes.schedules.choose_schedules", "gives every kernel its variant and its tiles"
    ),
    "price-kernels": PassRow(
        "mgn.passes.saturate.price_kernels", "notes what kernels cost, for a budget of memory"
    ),
    "lower-kernels": PassRow("mgn.passes.lower_kernels", "kernels become loops over memory"),
    "rematerialise": PassRow(
        "mgn.passes.rematerialise.rematerialise", "launches again, for a budget of memory"
    ),
    "plan-memory": PassRow("mgn.passes.plan_memory", "graphs become launches over one arena"),
    "merge-launches": PassRow(
        "mgn.passes.merge_launches", "runs of launches become one of resident work-groups"
    ),
    "convert-kernel-to-spirv": PassRow(
        "mgn.passes.convert_kernel_to_spirv", "kernels become one module of SPIR-V"
    ),
    "inline-kernels": PassRow("mgn.passes.inline_kernels", "un-fuses: kernels become plain graphs"),
    "decompose": PassRow("mgn.passes.decompose_composites", "composites become core operations"),
    "canonicalize": PassRow("xdsl.transforms.canonicalize", "xDSL's canonicalization patterns"),
    "cse": PassRow("xdsl.transforms.common_subexpression_elimination", "xDSL's CSE"),
    "dce": PassRow("xdsl.transforms.dead_code_elimination", "xDSL's DCE"),
}
"""Passes by name."""

_INFERENCE = (
    "raise-checks",
    "differentiate",
    "thread-states",
    "unpack-blocks",
    "simplify",
    "store-activations",
    "convert-precision",
    "saturate",
    "read-panels",
    "choose-schedules",
    "lower-kernels",
    "plan-memory",
    "merge-launches",
)

MEMORY = "memory"
"""The option that a named pipeline has: a budget for `rematerialise`."""

REMATERIALISE = "rematerialise"
"""The pass that fits programs into a budget."""

BUDGETED = {"lower-kernels": "price-kernels", "plan-memory": REMATERIALISE}
"""What stands before a pass where there is a budget of memory."""

PIPELINES: dict[str, tuple[str, ...]] = {
    "default": _INFERENCE,
    "inference": _INFERENCE,
    "training": ("mixed-precision", "training-step", *_INFERENCE),
}
"""Named pipelines; `default` is what a run without a pipeline of its own uses."""

Step = str | ModulePass
"""A pass of a pipeline: its name, where nothing is said of its options, or the pass with them."""

Passes = str | Sequence[str | ModulePass | type[ModulePass]]
"""What `mgn.compile` takes as `passes`: the text of a pipeline, or its parts."""

SHOWN = 200
"""Characters of a pipeline that a message shows."""


_ANCHORED = re.compile(r"\s*(?P<operation>[A-Za-z_][\w.]*)\s*\(")
"""How the pipeline of an operation begins."""

_BETWEEN = re.compile(r"\s*,\s*(?![^{}]*\})")
"""What stands between two passes, which may have spaces around it; not what stands in options."""

UNKNOWN_TOKEN = "Unknown token"
"""What xDSL says of a sign that no name or number has."""


KINDS = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "a text",
}
"""How the kinds of options are said that are one value."""


class PipelineError(MgnError):
    """A pipeline's text is wrong: an unknown pass, an unknown option, a value of another type."""


class Watcher(Protocol):
    """Sees a module around every pass."""

    def before(self, name: str, module: ModuleOp) -> None:
        """Called before the pass of that name."""
        ...

    def after(self, name: str, module: ModuleOp, seconds: float) -> None:
        """Called after it, with the time it took."""
        ...


def find_pass(name: str) -> type[ModulePass]:
    """The class of a pass. PipelineError, with the nearest name, where there is none."""
    if name not in PASSES:
        raise PipelineError(_unknown(name))
    own = PASSES[name].own
    if own is not None:
        return own
    module = importlib.import_module(PASSES[name].module)
    for _, found in inspect.getmembers(module, inspect.isclass):
        if issubclass(found, ModulePass) and getattr(found, "name", None) == name:
            return found
    raise PipelineError(f"{PASSES[name].module} holds no pass of the name '{name}'")


def is_default() -> bool:
    """Whether the pipeline of a compilation is mgn's own, with nothing that a user registered."""
    return PIPELINES["inference"] == _INFERENCE


def parse_passes(text: str) -> list[ModulePass]:
    """The passes that a text names: `pass,pass{option=value}`, with named pipelines among them.
    `builtin.module(…)` may stand around it, as MLIR writes pipelines.
    """
    return [_made(step) if isinstance(step, str) else step for step in _steps(text)]


def pipeline_of(passes: Passes) -> tuple[Step, ...]:
    """The steps of what `mgn.compile` takes as `passes`. PipelineError where these are none."""
    if isinstance(passes, str):
        return tuple(_steps(passes))
    found: list[Step] = []
    given = cast("object", passes)
    for item in cast("Sequence[object]", given if isinstance(given, Sequence) else [given]):
        if isinstance(item, str):
            found += _steps(item)
        elif isinstance(item, ModulePass):
            found.append(item)
        elif isinstance(item, type) and issubclass(item, ModulePass):
            if not isinstance(getattr(item, "name", None), str):
                raise PipelineError(f"the pass {item.__name__} has no name")
            found.append(_default(item))
        else:
            said = type(item).__name__
            raise PipelineError(f"passes are names and xDSL's ModulePass, not {said}")
    return tuple(found)


def name_of(step: Step) -> str:
    """The name of a step's pass."""
    return step if isinstance(step, str) else step.name


def within(steps: Sequence[Step], memory: int | str | None) -> list[Step]:
    """The steps of a pipeline, with those that a budget of memory adds where they are not there.
    PipelineError where a pipeline takes no budget.
    """
    found = list(steps)
    if memory is None:
        return found
    if any(isinstance(step, ModulePass) and step.name == REMATERIALISE for step in found):
        raise PipelineError(
            f"the budget of memory is said twice: by {argument_name('memory')}, and by the "
            f"pipeline, whose '{REMATERIALISE}' has one"
        )
    for before, added in BUDGETED.items():
        names = [name_of(step) for step in found]
        if before not in names:
            raise PipelineError(
                f"a budget of memory needs the pass '{before}', and the pipeline lacks it; "
                "'default' has it"
            )
        if added not in names:
            found.insert(names.index(before), added)
        elif names.index(added) > names.index(before):
            raise PipelineError(f"the pass '{added}' stands before '{before}', not behind it")
    return found


def _steps(text: str) -> list[Step]:
    """The steps that a text names."""
    text = _BETWEEN.sub(",", _within_module(text).strip())
    if not text:
        return []
    try:
        specs = list(parse_pipeline(text))
    except (ArgSpecParseError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1].strip(" ^")[:SHOWN]
        text = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        hint = '; text with other signs goes in quotes: {option="a+b"}' * (reason == UNKNOWN_TOKEN)
        raise PipelineError(f"cannot read the pipeline '{text}': {reason}{hint}") from None
    return [item for spec in specs for item in _steps_of(spec)]


def _within_module(text: str) -> str:
    """What stands in `builtin.module(…)`, or the text as it is. PipelineError for the pipeline of
    another operation.
    """
    found = _ANCHORED.match(text)
    if found is None:
        return text
    if found["operation"] not in ("builtin.module", "any"):
        raise PipelineError(
            f"passes run on a whole module: '{found['operation'][:SHOWN]}(…)' is no pipeline of "
            "mgn, and builtin.module(…) is"
        )
    inner = text[found.end() :].rstrip()
    if not inner.endswith(")"):
        raise PipelineError(f"'{found['operation']}(' is not closed by a ')' at the end")
    inner = inner[:-1]
    return _within_module(inner) if _ANCHORED.match(inner) else inner


def run_passes(
    passes: Sequence[ModulePass],
    module: ModuleOp,
    context: Context,
    watchers: Sequence[Watcher] = (),
) -> None:
    """Applies passes in order: those of `mgn-opt` and those of `mgn.compile`."""
    with collector_paused():
        for item in passes:
            for watcher in watchers:
                watcher.before(item.name, module)
            start = time.perf_counter()
            if type(item).__module__.startswith(("mgn.", "xdsl.")):
                item.apply(context, module)
            else:
                _apply_own(item, context, module)
            seconds = time.perf_counter() - start
            for watcher in watchers:
                watcher.after(item.name, module, seconds)


def _apply_own(item: ModulePass, context: Context, module: ModuleOp) -> None:
    """Applies a pass that is not mgn's, and verifies what it leaves. PipelineError, which names it,
    where it fails with an error that is not mgn's or xDSL's.
    """
    try:
        item.apply(context, module)
    except (MgnError, DiagnosticException):
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}".strip()[:SHOWN]
        raise PipelineError(f"pass '{item.name}' fails with {said}") from error
    try:
        module.verify()
    except Exception as error:
        said = str(error).strip().splitlines()
        reason = said[-1][:SHOWN] if said else type(error).__name__
        raise PipelineError(
            f"pass '{item.name}' leaves a module that does not verify: {reason}"
        ) from error


def describe_passes() -> Iterator[tuple[str, str, list[str]]]:
    """Every pass: its name, its summary, its options as `name: type = default`."""
    for name, row in PASSES.items():
        found = find_pass(name)
        options = [
            f"{info.name.replace('_', '-')}: {info.expected_type}"
            + (f" = {info.default_value}" if info.default_value is not None else "")
            for info in _options_of(found)
        ]
        yield name, row.summary, options


def _options_of(found: type[ModulePass]) -> list[PassOptionInfo]:
    """What a pipeline's text may set; a pass's other fields hold what it found."""
    settable = {item.name for item in fields(found) if item.init}
    return [info for info in get_pass_option_infos(found) if info.name in settable]


def _default(found: type[ModulePass]) -> ModulePass:
    """A pass with the options that it has by default."""
    try:
        return found.from_spec(ArgSpec(found.name, {}))
    except ValueError as error:
        raise PipelineError(f"pass '{found.name}': {error}") from None


def _made(name: str) -> ModulePass:
    return _default(find_pass(name))


def _steps_of(spec: ArgSpec) -> Iterator[Step]:
    """What a part of a pipeline's text stands for."""
    if spec.name in PIPELINES:
        yield from _named_steps(spec)
    elif spec.parameters:
        yield _with_options(spec)
    else:
        find_pass(spec.name)
        yield spec.name


def _named_steps(spec: ArgSpec) -> Iterator[Step]:
    """The steps of a named pipeline, which may be given a budget of memory."""
    memory = _memory_of(spec)
    for step in within(PIPELINES[spec.name], memory):
        if memory is not None and step == REMATERIALISE:
            yield find_pass(REMATERIALISE)(**{MEMORY: memory})
        else:
            yield step


def _with_options(spec: ArgSpec) -> ModulePass:
    """The pass of a text with options."""
    found = find_pass(spec.name)
    known = {info.name: info.expected_type for info in _options_of(found)}
    shown = [name.replace("_", "-") for name in known]
    hint = f"its options are {', '.join(shown)}" if known else "it has no options"
    parameters = dict(spec.normalize_parameter_names().parameters)
    for name, values in parameters.items():
        option = name.replace("_", "-")
        if name not in known:
            near = difflib.get_close_matches(option, shown, 1)
            hint = f"did you mean '{near[0]}'?" if near else hint
            raise PipelineError(f"pass '{spec.name}' has no option '{option}'; {hint}")
        parameters[name] = given = _as_declared(values, known[name])
        if not _is_declared(given, known[name]):
            shown = ",".join(map(str, values)) or "nothing"
            wanted = KINDS[known[name]]
            raise PipelineError(f"pass '{spec.name}': {option} takes {wanted}, not {shown}")
    try:
        return found.from_spec(ArgSpec(spec.name, parameters))
    except ValueError as error:
        raise PipelineError(f"pass '{spec.name}': {error}; {hint}") from None


def _memory_of(spec: ArgSpec) -> int | str | None:
    """The budget that a named pipeline is given. PipelineError for another option."""
    for name, values in spec.parameters.items():
        if name != MEMORY:
            raise PipelineError(
                f"the pipeline '{spec.name}' takes no option '{name:.80}'; it has one, {MEMORY}, "
                "and its passes have others"
            )
        if len(values) != 1 or isinstance(values[0], bool | float):
            wanted = f'{MEMORY}="4GiB" or a number of bytes'
            raise PipelineError(f"the pipeline '{spec.name}' takes {wanted}")
        return values[0]
    return None


def _as_declared(values: ParameterListType, declared: str) -> ParameterListType:
    """An option's values, where `none` is nothing and a whole number serves as a float."""
    kinds = {kind.strip() for kind in declared.split("|")}
    if values == ("none",) and "None" in kinds:
        return ()
    if "float" in kinds and "int" not in kinds:
        return tuple(float(item) if type(item) is int else item for item in values)
    return values


def _is_declared(values: ParameterListType, declared: str) -> bool:
    """Whether an option of one of the `KINDS` has one value of it."""
    return declared not in KINDS or [type(item).__name__ for item in values] == [declared]


def _unknown(name: str) -> str:
    known = [*PASSES, *PIPELINES]
    nearest = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean '{nearest[0]}'?" if nearest else f"there are {', '.join(known)}"
    return f"unknown pass or pipeline '{name[:SHOWN]}'; {hint}"
