"""The main work of `mgn-run`: arrays in, the compiled graph, results out.

In: the arguments. Out: lines on stdout, remarks on stderr, files. Everything that may fail on bad
input (files, names, types) is looked at before the graph runs.
"""

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.api import compile_lowered, describe_device
from mgn.commands.arguments import parse_dimensions, passes_of, saturation_of
from mgn.commands.checkpoints import set_parameters
from mgn.commands.errors import UsageError, say
from mgn.commands.modes import in_mode
from mgn.commands.stages import program_of
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.dialects.types import element_of_dtype, tensor_bytes
from mgn.driver.report import bytes_text, kernel_table, seconds_text
from mgn.executable import Executable
from mgn.modules.files import check_apart, check_target, npz_bytes, write_whole
from mgn.modules.sampling import sample_inputs
from mgn.parameters import Parameters
from mgn.recipe import Recipe
from mgn.runtime.devices import ComputeDevice
from mgn.runtime.packages.load import PackagedExecutable


def execute(arguments: argparse.Namespace) -> None:
    """Compiles and runs the graph that the arguments describe, and prints its results."""
    from mgn.runtime.devices import choose
    from mgn.runtime.launching.session import Session
    from mgn.runtime.weights import load_arrays

    dimensions = parse_dimensions(arguments.dim)
    saturation = saturation_of(arguments)
    pipeline = passes_of(arguments)
    started = time.perf_counter()
    program = program_of(arguments)
    check_targets(arguments, program.files)
    graph = program.choose_graph(arguments.graph)
    mode = in_mode(program, graph, dimensions, arguments)
    ir = mode.program.lower(graph, mode.dimensions)
    seconds = time.perf_counter() - started
    given = load_arrays(arguments.inputs) if arguments.inputs else None
    chosen = choose(arguments.device)
    if given is None:
        _check_memory(next(graphs_of(ir)), chosen)
        samples = sample_inputs(next(graphs_of(ir)), arguments.seed)
        inputs = {label: item.array for label, item in samples.items()}
        for item in samples.values():
            say(f"random input {item.description}")
    else:
        inputs = given
    described = describe_device(chosen)
    recipe = Recipe(
        mode.program, graph, mode.dimensions, described, saturation, arguments.precision, pipeline
    )
    params = Parameters(Session(chosen), arguments.seed, mode.trained) if mode.trained else None
    exe = compile_lowered(
        ir, chosen, recipe, arguments.seed, arguments.target, arguments.tune, params
    )
    exe.report.times.insert(0, ("parse and lower", seconds))
    set_parameters(exe, arguments)
    for name, array in (load_arrays(arguments.states) if arguments.states else {}).items():
        exe.state[name] = array
    profile = arguments.report or arguments.trace is not None or arguments.explain is not None
    outputs = exe.run(inputs, profile=False)
    lines = [output_line(label, array) for label, array in outputs.items()]
    lines += [output_line(f"state {name}", array) for name, array in exe.state.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    if arguments.repeat > 1:
        sys.stdout.write(timing_line(exe, inputs, arguments.repeat) + "\n")
    if profile:
        exe.run(inputs, profile=True)
    if arguments.report:
        sys.stdout.write(_report(exe))
    if arguments.trace is not None:
        exe.trace(arguments.trace)
    if arguments.explain is not None:
        exe.explain(arguments.explain)
    if arguments.outputs is not None:
        write_whole(arguments.outputs, npz_bytes(outputs))


def check_targets(arguments: argparse.Namespace, files: Iterable[Path] = ()) -> None:
    """What is written can be, and takes the place of nothing that is read or written beside it."""
    if arguments.outputs and not arguments.outputs.endswith(".npz"):
        raise UsageError(
            f"--outputs takes a file name that ends in .npz, not '{arguments.outputs}'"
        )
    given = (arguments.file, arguments.inputs, arguments.params, arguments.states)
    taken = [*files, *(Path(file) for file in given if file not in (None, "-"))]
    for path in (arguments.outputs, arguments.trace, arguments.explain):
        if path is None:
            continue
        check_target(path)
        check_apart(path, taken)
        taken.append(Path(path))


def _check_memory(graph: GraphOp, device: ComputeDevice) -> None:
    """UsageError, before anything is drawn, where a graph's inputs cannot be on a device."""
    types = [argument.type for argument in graph.block.args]
    needed = sum(tensor_bytes(type) for type in types if isinstance(type, TensorType))
    if needed > device.handle.global_mem_size:
        raise UsageError(
            f"the inputs of graph '{graph.sym_name.data}' take {bytes_text(needed)}, "
            f"and {device.name} has {bytes_text(device.handle.global_mem_size)}"
        )


def output_line(name: str, array: np.ndarray) -> str:
    """A result in a line: name, type, mean, least and largest element."""
    element = element_of_dtype(array.dtype).name
    type = f"{element}[{', '.join(map(str, array.shape))}]"
    if array.size == 0:
        return f"{name}: {type} (empty)"
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        mean = wide.mean()
    return f"{name}: {type} mean {mean:.6g} min {wide.min():.6g} max {wide.max():.6g}"


def timing_line(
    exe: Executable | PackagedExecutable, inputs: dict[str, np.ndarray], repeat: int
) -> str:
    """The median of whole runs, and of the launches alone."""
    whole: list[float] = []
    launches: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        exe.run(inputs)
        middle = time.perf_counter()
        exe.replay()
        whole.append(middle - start)
        launches.append(time.perf_counter() - middle)
    return (
        f"median of {repeat} runs: {seconds_text(median(launches))} on the device, "
        f"{seconds_text(median(whole))} with copies"
    )


def _report(exe: Executable) -> str:
    times = [item.seconds for item in exe.profile if item.kernel != "copy"]
    table = kernel_table(exe.report.kernels, times, exe.report.device)
    return f"\n{exe.report}\n\n{table}\n"
