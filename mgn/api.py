"""The calls of `import mgn`: parse a program, optimise it, compile it for a device.

In: text, a file, a built graph or an xDSL module. Out: `Module`, `Optimized` or `Executable`.

    module = mgn.parse("graph g(x: f32[4]) { y = relu(x)\\n return y }")
    exe = mgn.compile(module)
    y = exe(x=np.array([-1.0, 0.0, 1.0, 2.0], np.float32))["y"]
"""

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import MgnError, WrongType
from mgn.dialects.kernel.device import DEVICES, Device
from mgn.driver.compilation import Compiled, optimize_graph, planned_memory
from mgn.driver.pipelines import Passes, Step, pipeline_of
from mgn.driver.precision import check_precision
from mgn.driver.report import OptimizeReport
from mgn.driver.residency import check_residency, residing
from mgn.executable import Executable
from mgn.modules.call_arguments import check_arguments, check_saturation
from mgn.modules.module import Module, load_program
from mgn.parameters import Parameters
from mgn.plugins.loading import load_plugins
from mgn.program import Program
from mgn.recipe import Recipe
from mgn.sizes.ranges import Sizes, check_programs, fixed, ranged

if TYPE_CHECKING:
    from mgn.passes.saturate import SaturateOptions
    from mgn.runtime.devices import ComputeDevice

MOST_SECONDS = 1e9
"""The longest search for schedules that can be asked for."""

MODES = {"inference": None, "training": "mgn.training.step.step"}
"""What a compiled graph does, and the module that makes such a graph of one that computes its
outputs alone; it is imported when the mode is used.
"""


class BuiltGraph(Protocol):
    """What the builder's `mgn.graph` gives: something with a module."""

    @property
    def module(self) -> ModuleOp:
        """The graph as an xDSL module."""
        ...


class AnyOptimizer(Protocol):
    """What `mgn.Optimizer` is: something with an update."""

    def update(self, at: Any) -> Any:
        """A parameter's next value."""
        ...


AnyModule = Module | ModuleOp | BuiltGraph

Dims = Mapping[str, int] | Mapping[str, range] | Mapping[str, int | range | Sizes]
"""Sizes of dimensions, of which one may have a range of them."""


@dataclass(frozen=True)
class Optimized:
    """A graph cut into kernels, and how it came about."""

    module: ModuleOp
    report: OptimizeReport
    recipe: Recipe = field(repr=False)

    def explain(self, path: str | Path) -> None:
        """Writes a page of HTML that says how each kernel came about."""
        self.recipe.write_page(path)

    def __repr__(self) -> str:
        return f"Optimized(graph={self.report.graph!r}, kernels={len(self.report.kernels)})"


def parse(text: str, name: str = "<text>") -> Module:
    """A program from `.mgn` text. DiagnosticsError with every error found."""
    check_arguments("mgn.parse", text=text, name=name)
    return load_program("mgn", text, name)


def parse_file(path: str | Path) -> Module:
    """A program from a `.mgn`, `.mlir` or `.onnx` file. DiagnosticsError with every error found."""
    from mgn.frontend.syntax.source import read_source

    load_plugins()
    check_arguments("mgn.parse_file", path=path)
    path = Path(path)
    if path.suffix == ".onnx":
        return from_onnx(path)
    if path.suffix == ".mlir":
        return load_program("mlir", read_source(path).text, str(path))
    from mgn.frontend.program import parse_file as parse_mgn_file

    return Module(parse_mgn_file(path))


def from_onnx(
    model: Any,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[Any]] | None = None,
    constants: Mapping[str, Any] | None = None,
) -> Module:
    """A program from an ONNX file or a `ModelProto`. DiagnosticsError with what mgn does not have.

    `dims` gives dimensions a size, `shapes` whole inputs, a list of shapes for one that is a
    sequence; `constants` are inputs whose values are
    part of the program, such as the shape for a Reshape. The initialisers are parameters, which
    `mgn.compile` loads.
    """
    from mgn.frontend.onnx.program import load_onnx

    load_plugins()
    check_arguments("mgn.from_onnx", dims=dims, shapes=shapes, constants=constants)
    return Module(load_onnx(model, dims, shapes, constants))


def optimize(
    module: AnyModule,
    graph: str | None = None,
    dims: Mapping[str, int] | None = None,
    device: Device | str = "cpu",
    precision: str = "f32",
    saturation: "SaturateOptions | None" = None,
    passes: Passes | None = None,
    memory: int | str | None = None,
) -> Optimized:
    """Rewrites a graph and cuts it into kernels; needs no OpenCL.

    `device` is a description, or the name of one in `mgn.dialects.kernel.DEVICES`; `precision`,
    `saturation`, `passes` and `memory` are those of `mgn.compile`; what stands behind the last
    `saturate` is left out. With `memory`, the report says what the program takes, and MgnError is
    raised where it does not fit.
    """
    load_plugins()
    check_arguments("mgn.optimize", graph=graph, dims=dims, description=device, precision=precision)
    budget = checked_budget("mgn.optimize", memory)
    check_saturation("mgn.optimize", saturation)
    if isinstance(device, str):
        if device not in DEVICES:
            raise MgnError(f"unknown device '{device}'; there are {', '.join(DEVICES)}")
        device = DEVICES[device]
    if problem := device.problem():
        raise MgnError(f"the description of {device.name!r:.80}: {problem}")
    pipeline = None if passes is None else pipeline_of(passes)
    recipe = recipe_of(module, graph, dims, device, saturation, precision, pipeline, budget)
    ir, seconds = _lower(recipe)
    report = optimize_graph(
        ir,
        device,
        saturation=saturation,
        precision=precision,
        pipeline=pipeline,
        memory=budget,
    )
    report.times.insert(0, ("lower", seconds))
    if budget is not None:
        report.memory = planned_memory(ir.clone(), saturation, budget, pipeline)
    return Optimized(ir, report, recipe)


@overload
def compile(
    module: AnyModule,
    graph: str | None = None,
    dims: Dims | None = None,
    device: str = "auto",
    mode: str = "inference",
    seed: int = 0,
    target: str = "auto",
    saturation: "SaturateOptions | None" = None,
    precision: str = "f32",
    tune: float = 0.0,
    optimizer: AnyOptimizer | None = None,
    loss: str = "loss",
    loss_scale: Any = "auto",
    prepare: bool = True,
    params: Parameters | None = None,
    passes: Passes | None = None,
    resident: str = "auto",
    buckets: int = 6,
    memory: int | str | None = None,
) -> Executable: ...


@overload
def compile(
    module: AnyModule,
    graph: list[str] | tuple[str, ...],
    dims: Dims | None = None,
    device: str = "auto",
    mode: str = "inference",
    seed: int = 0,
    target: str = "auto",
    saturation: "SaturateOptions | None" = None,
    precision: str = "f32",
    tune: float = 0.0,
    optimizer: AnyOptimizer | None = None,
    loss: str = "loss",
    loss_scale: Any = "auto",
    prepare: bool = True,
    params: Parameters | None = None,
    passes: Passes | None = None,
    resident: str = "auto",
    buckets: int = 6,
    memory: int | str | None = None,
) -> Program: ...


def compile(
    module: AnyModule,
    graph: str | list[str] | tuple[str, ...] | None = None,
    dims: Dims | None = None,
    device: str = "auto",
    mode: str = "inference",
    seed: int = 0,
    target: str = "auto",
    saturation: "SaturateOptions | None" = None,
    precision: str = "f32",
    tune: float = 0.0,
    optimizer: AnyOptimizer | None = None,
    loss: str = "loss",
    loss_scale: Any = "auto",
    prepare: bool = True,
    params: Parameters | None = None,
    passes: Passes | None = None,
    resident: str = "auto",
    buckets: int = 6,
    memory: int | str | None = None,
) -> Executable | Program:
    """An executable for a graph of a program. The graph may be left out where there is one only.

    For a list of graphs, it is a `Program`: these graphs share parameters and states on the device.

    `dims` binds dimension parameters, `device` selects an OpenCL device (`auto`, `cpu`, `gpu`, an
    index, part of a name), `seed` fixes what the initialisers draw. `target` is the form of the
    kernels: `opencl`, `spirv`, or `auto` for what is quicker on the device. `saturation` limits
    what the e-graph may do: which classes of rules, and whether to fuse. `precision` says what the
    operands of f32 products may be rounded to: `f32` (not at all), `tf32`, `bf16` or `f16`; sums
    stay in f32. `tune` is for how many seconds better schedules are searched for by measuring; what
    is found is kept on disk, and used by later compilations of the same kernels for the device.
    `params` is `exe.params` of another compilation: parameters and states of one name are then one
    on the device, which is that of the other, and arrays that stay there go from one to the other.

    `memory`, such as `"4GiB"`, is the most device memory that a graph may take: then launches may
    run in another order, states may be written before a run has succeeded, and kernels may run
    twice, by their prices. MgnError where no such plan is found.

    With `mode="training"`, a run is a step: `optimizer` (`AdamW()` if none is given) lowers the
    output `loss` of the one graph, which is scaled by `loss_scale` while it is differentiated:
    `dynamic`, `none`, a number, or `auto`, which is dynamic in f16. `mgn.Trainer` has more to set.
    With `prepare=False`, what parameters alone decide is not kept, but computed in each run.
    With `resident="off"`, each kernel is a launch of its own; otherwise runs of kernels become one
    where that is faster: on a GPU, and with `resident="on"` on a CPU, where one core runs them.

    `passes` takes the place of the default pipeline: a text such as `"my-pass,default"`, or a list
    of names and passes. Those that say nothing of their options have those of this call.

    One of `dims` may have a range of sizes, such as `range(1, 513)`. The executable then takes each
    of them, and is a `mgn.sized_executable.SizedExecutable`: at most so many `buckets` are the
    sizes that programs are compiled for, when they are first needed. A run goes to the least that
    has room for it, where its results do not depend on padding; else its size is compiled for.
    """
    load_plugins()
    check_arguments("mgn.compile", graphs=graph, dims=dims, device=device, mode=mode, seed=seed)
    check_arguments("mgn.compile", target=target, precision=precision, tune=tune, loss=loss)
    check_arguments("mgn.compile", prepare=prepare, resident=resident)
    check_residency(resident)
    budget = checked_budget("mgn.compile", memory)
    check_saturation("mgn.compile", saturation)
    check_precision(precision)
    check_programs(buckets)
    if not 0 <= tune <= MOST_SECONDS:
        raise MgnError(f"tune takes a number of seconds from 0 to {MOST_SECONDS:g}")
    if seed < 0:
        raise MgnError("seed takes a number of at least 0")
    if mode not in MODES:
        raise MgnError(f"unknown mode '{mode}'; there are {', '.join(MODES)}")
    pipeline = None if passes is None else pipeline_of(passes)
    several = isinstance(graph, list | tuple)
    trains = MODES[mode]
    if optimizer is not None and trains is None:
        raise MgnError('an optimizer goes with mode="training"')
    if not (isinstance(loss_scale, str) and loss_scale == "auto") and trains is None:
        raise MgnError('a loss_scale goes with mode="training"')
    if several and trains is not None:
        raise MgnError('mode="training" takes one graph; mgn.Trainer trains and evaluates')
    from mgn.runtime.launching.session import Session

    chosen = _device_with(params, device)
    described = residing(describe_device(chosen), resident)
    if trains is not None and ranged(dims) is not None:
        raise MgnError('mode="training" takes one size of each dimension, and no range')
    names: list[str | None] = [*graph] if several else [graph]
    bound = as_module(module).dims_of(graph, dims) if several else [dims]
    if not prepare:
        saturation = _unprepared(saturation)
    if trains is not None:
        wrapped = as_module(module)
        names = [wrapped.choose_graph(names[0])]
        scaled_step = importlib.import_module(trains).scaled_step
        lowered = wrapped.lower(names[0], fixed(dims))
        step = scaled_step(lowered, loss, optimizer, loss_scale, precision, wrapped.fixed)
        module, bound = Module(step.module, wrapped.values), [None]
        params = Parameters(Session(chosen), seed, step.trained)

    def make(
        recipe: Recipe, params: Parameters | None, form: "Callable[..., Executable]" = Executable
    ) -> Executable:
        ir, seconds = _lower(recipe)
        made = compile_lowered(ir, chosen, recipe, seed, target, tune, params, form)
        made.report.times.insert(0, ("lower", seconds))
        return made

    executables: dict[str, Executable] = {}
    for name, sizes in zip(names, bound, strict=True):
        found = ranged(sizes)
        others = fixed(sizes) if found is None else found[2]
        recipe = recipe_of(module, name, others, described, saturation, precision, pipeline, budget)
        if found is None:
            executable = make(recipe, params)
        else:
            executable = _sized(recipe, found[0], found[1], buckets, make, params)
        executables[recipe.graph] = executable
        params = executable.params
    assert params is not None
    if not several:
        return next(iter(executables.values()))
    return Program(executables, params)


def _sized(
    recipe: Recipe,
    dimension: str,
    sizes: Sizes,
    buckets: int,
    make: "Callable[..., Executable]",
    params: Parameters | None,
) -> Executable:
    """An executable for all sizes of a dimension."""
    from mgn.program_cache.prices import price_or_recall
    from mgn.sized_executable import SizedExecutable, recipe_at
    from mgn.sizes.plan import plan_sizes

    def price(ir: ModuleOp) -> float:
        return price_or_recall(ir, recipe.device, recipe.precision)

    def lower(size: int) -> ModuleOp:
        return replace(recipe, dims={**(recipe.dims or {}), dimension: size}).lower()

    plan = plan_sizes(lower, dimension, sizes, buckets, price)
    first = plan.first
    form = partial(SizedExecutable, sizes=plan, first=first, make=make)
    return make(recipe_at(recipe, plan, first), params, form)


def compile_lowered(
    ir: ModuleOp,
    device: "ComputeDevice",
    recipe: Recipe,
    seed: int = 0,
    target: str = "auto",
    tune: float = 0.0,
    params: Parameters | None = None,
    wrap: Callable[..., Executable] = Executable,
) -> Executable:
    """An executable for the module of a recipe's graph, which is changed in place. Its parameters
    are among `params` where these are given. Where the driver refuses a launch of several kernels,
    each is a launch of its own. `wrap` makes it of what was compiled.
    """
    from mgn.driver.kernel_targets import choose_target
    from mgn.program_cache.cache import compile_or_recall
    from mgn.runtime.errors import BuildError
    from mgn.tuning.store import ScheduleStore
    from mgn.tuning.trials import DeviceTrials
    from mgn.tuning.tuner import Tuner

    form = choose_target(target, device)
    store = ScheduleStore.default(f"{device.measured_identity}/{form}")
    trial = DeviceTrials(device, recipe.device, form) if tune else None

    def compiled(ir: ModuleOp, saturation: "SaturateOptions | None") -> Compiled:
        return compile_or_recall(
            ir,
            recipe.device,
            Tuner(store, trial, tune),
            recipe.reference,
            target=form,
            saturation=saturation,
            precision=recipe.precision,
            pipeline=recipe.pipeline,
            **({} if recipe.memory is None else {"memory": recipe.memory}),
        )

    def cautious() -> Compiled:
        return compiled(recipe.lower(), recipe.cautious)

    found = compiled(ir, recipe.saturation)
    try:
        made = wrap(found, device, recipe, seed, cautious, params)
    except BuildError:
        if not found.report.merged:
            raise
        apart = replace(recipe, device=residing(recipe.device, "off"))
        return compile_lowered(apart.lower(), device, apart, seed, target, tune, params, wrap)
    made.params.give(recipe.module.values)
    return made


def _device_with(params: Parameters | None, selector: str) -> "ComputeDevice":
    """The device that a selector names, or that parameters lie on. MgnError where these differ."""
    from mgn.runtime.devices import choose

    if params is None:
        return choose(selector)
    if not isinstance(params, Parameters):  # pyright: ignore[reportUnnecessaryIsInstance]
        said = type(params).__name__
        raise WrongType(f"mgn.compile: 'params' takes what exe.params gives, not {said}")
    held = params.session.device
    if selector != "auto" and choose(selector).handle != held.handle:
        raise MgnError(f"the parameters lie on {held.name}, which device={selector!r} is not")
    return held


def describe_device(device: "ComputeDevice", again: bool = False) -> Device:
    """The compiler's description of one of `mgn.runtime.devices.list_devices()`.

    `again` measures what was measured before.
    """
    from mgn.runtime.measurement.figures import FIGURES_VARIABLE, describe

    described = Device(**describe(device, again=again))
    if problem := described.problem():
        raise MgnError(f"{FIGURES_VARIABLE}: {problem}")
    return described


def checked_budget(call: str, memory: int | str | None) -> int | None:
    """The bytes of a budget, if there is one. TypeError or MgnError where it is no size."""
    if memory is None:
        return None
    from mgn.passes.rematerialise.budget import parse_bytes

    check_arguments(call, memory=memory)
    return parse_bytes(memory, f"{call}: memory")


def as_module(module: AnyModule) -> Module:
    """The friendly wrapper around any form of a program."""
    if isinstance(module, Module):
        return module
    ir = module if isinstance(module, ModuleOp) else getattr(module, "module", None)
    if not isinstance(ir, ModuleOp):
        raise MgnError(f"a program is expected, as mgn.parse gives it, not {type(module).__name__}")
    return Module(ir)


def _unprepared(saturation: "SaturateOptions | None") -> "SaturateOptions":
    """The same, and nothing is computed ahead of a run."""
    from mgn.passes.saturate import SaturateOptions

    return replace(saturation or SaturateOptions(), prepare=False)


def recipe_of(
    module: AnyModule,
    graph: str | None,
    dims: Mapping[str, int] | None,
    device: Device,
    saturation: "SaturateOptions | None" = None,
    precision: str = "f32",
    pipeline: Sequence[Step] | None = None,
    memory: int | None = None,
) -> Recipe:
    """How a graph of a program is compiled, with these settings."""
    wrapped = as_module(module)
    chosen = wrapped.choose_graph(graph)
    return Recipe(wrapped, chosen, dims, device, saturation, precision, pipeline, memory)


def _lower(recipe: Recipe) -> tuple[ModuleOp, float]:
    start = time.perf_counter()
    ir = recipe.lower()
    return ir, time.perf_counter() - start
