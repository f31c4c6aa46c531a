"""The passes by name, the pipelines made of them, and how a pipeline runs.

In: a pipeline's text (`simplify,plan-memory{alignment=512}`, or the name of a pipeline) and a
module. Out: the module, changed in place. A `Watcher` sees the module before and after every pass.
"""

import difflib
import importlib
import inspect
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass, PassOptionInfo, get_pass_option_infos
from xdsl.utils.arg_spec import ArgSpec, ParameterListType, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from mgn.diagnostics import MgnError
from mgn.dialects.garbage import collector_paused


@dataclass(frozen=True)
class PassRow:
    """Where a pass is, and what it does in a line. The module is imported when the pass is used."""

    module: str
    summary: str


PASSES: dict[str, PassRow] = {
    "raise-checks": PassRow(
        "mgn.passes.raise_checks", "what is to be checked becomes results of its graph"
    ),
    "mixed-precision": PassRow(
        "mgn.passes.mixed_precision", "what products read and give becomes of half precision"
    ),
    "training-step": PassRow(
        "mgn.training.step_pass", "a graph with a loss becomes the step that lowers it"
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
    "convert-precision": PassRow(
        "mgn.passes.convert_precision", "rounds the operands of f32 products for matrix units"
    ),
    "saturate": PassRow("mgn.passes.saturate", "rewrites and cuts graphs into kernels by e-graph"),
    "arrange-kernels": PassRow(
        "mgn.passes.saturate.arrange_kernels",
        "hand-written kernels as several or on matrix units, as prices say",
    ),
    "choose-schedules": PassRow(
        "mgn.passes.schedules.choose_schedules", "gives every kernel its variant and its tiles"
    ),
    "lower-kernels": PassRow("mgn.passes.lower_kernels", "kernels become loops over memory"),
    "plan-memory": PassRow("mgn.passes.plan_memory", "graphs become launches over one arena"),
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
    "convert-precision",
    "saturate",
    "choose-schedules",
    "lower-kernels",
    "plan-memory",
)

PIPELINES: dict[str, tuple[str, ...]] = {
    "default": _INFERENCE,
    "inference": _INFERENCE,
    "training": ("mixed-precision", "training-step", *_INFERENCE),
}
"""Named pipelines; `default` is what a run without a pipeline of its own uses."""


SHOWN = 200
"""Characters of a pipeline that a message shows."""


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
    module = importlib.import_module(PASSES[name].module)
    for _, found in inspect.getmembers(module, inspect.isclass):
        if issubclass(found, ModulePass) and getattr(found, "name", None) == name:
            return found
    raise PipelineError(f"{PASSES[name].module} holds no pass of the name '{name}'")


def parse_passes(text: str) -> list[ModulePass]:
    """The passes that a text names: `pass,pass{option=value}`, with named pipelines among them."""
    if not text.strip():
        return []
    try:
        specs = list(parse_pipeline(text))
    except (ArgSpecParseError, ValueError) as error:
        reason = str(error).strip().splitlines()[-1].strip(" ^")[:SHOWN]
        text = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        hint = '; text with other signs goes in quotes: {option="a+b"}' * (reason == UNKNOWN_TOKEN)
        raise PipelineError(f"cannot read the pipeline '{text}': {reason}{hint}") from None
    return [item for spec in specs for item in _passes_of(spec)]


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
            item.apply(context, module)
            seconds = time.perf_counter() - start
            for watcher in watchers:
                watcher.after(item.name, module, seconds)


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


def _passes_of(spec: ArgSpec) -> Iterator[ModulePass]:
    if spec.name in PIPELINES:
        if spec.parameters:
            raise PipelineError(f"the pipeline '{spec.name}' takes no options; its passes do")
        for name in PIPELINES[spec.name]:
            yield find_pass(name)()
        return
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
        yield found.from_spec(ArgSpec(spec.name, parameters))
    except ValueError as error:
        raise PipelineError(f"pass '{spec.name}': {error}; {hint}") from None


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
