"""The main work of `mgn-run`: arrays in, the compiled graph, results out.

In: the arguments. Out: lines on stdout, remarks on stderr, files. Everything that may fail on bad
input (files, names, types) is looked at before the graph runs.
"""

import argparse
import sys
import time
from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.api import compile, compile_lowered, describe_device
from mgn.commands.actions.results import check_targets, output_line, timing_line
from mgn.commands.options.arguments import budget_of, parse_sizes, passes_of, saturation_of
from mgn.commands.options.checkpoints import set_parameters, set_states
from mgn.commands.options.errors import UsageError, say
from mgn.commands.options.modes import in_mode
from mgn.commands.printing.stages import program_of
from mgn.dialects.mgn.structure import GraphOp, graphs_of
from mgn.dialects.types import tensor_bytes
from mgn.driver.quantities import bytes_text
from mgn.driver.report import kernel_table
from mgn.driver.report_json import report_text
from mgn.driver.residency import residing
from mgn.executable import Executable
from mgn.modules.files import npz_bytes, write_whole
from mgn.modules.module import Module
from mgn.modules.sampling import sample_inputs
from mgn.parameters import Parameters
from mgn.recipe import Recipe
from mgn.runtime.devices import ComputeDevice
from mgn.sized_executable import SizedExecutable
from mgn.sizes.ranges import Sizes, fixed, ranged


def execute(arguments: argparse.Namespace) -> None:
    """Compiles and runs the graph that the arguments describe, and prints its results."""
    from mgn.runtime.devices import choose
    from mgn.runtime.launching.session import Session
    from mgn.runtime.weights import load_arrays

    sizes = parse_sizes(arguments.dim)
    ranges = ranged(sizes)
    saturation, memory = saturation_of(arguments), budget_of(arguments)
    pipeline = passes_of(arguments)
    started = time.perf_counter()
    program = program_of(arguments, arguments.shape, arguments.constant)
    check_targets(arguments, program.files)
    graph = program.choose_graph(arguments.graph)
    if ranges is not None and arguments.mode == "training":
        raise UsageError("--mode training takes one size of each dimension, and no range")
    mode = in_mode(program, graph, fixed(sizes), arguments)
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
    if ranges is not None:
        name, values, others = ranges
        first = _size_of(program, graph, name, inputs)
        expected = Sizes(values.values, first if first in values.values else None)
        exe: Executable = compile(
            program,
            graph,
            {**others, name: expected},
            arguments.device,
            seed=arguments.seed,
            target=arguments.target,
            saturation=saturation,
            precision=arguments.precision,
            tune=arguments.tune,
            passes=arguments.passes,
            resident=arguments.resident,
            memory=memory,
        )
    else:
        described = residing(describe_device(chosen), arguments.resident)
        options = (described, saturation, arguments.precision, pipeline, memory)
        recipe = Recipe(mode.program, graph, mode.dimensions, *options)
        params = Parameters(Session(chosen), arguments.seed, mode.trained) if mode.trained else None
        exe = compile_lowered(
            ir, chosen, recipe, arguments.seed, arguments.target, arguments.tune, params
        )
        exe.report.times.insert(0, ("parse and lower", seconds))
    set_parameters(exe, arguments)
    set_states(exe.state, arguments)
    written = (arguments.trace, arguments.explain, arguments.report_json)
    profile = arguments.report or any(path is not None for path in written)
    outputs = exe.run(inputs, profile=False)
    lines = [output_line(label, array) for label, array in outputs.items()]
    lines += [output_line(f"state {name}", array) for name, array in exe.state.items()]
    said = sys.stderr if arguments.report_json == "-" else sys.stdout
    said.write("\n".join(lines) + "\n")
    if arguments.repeat > 1:
        said.write(timing_line(exe, inputs, arguments.repeat) + "\n")
    if profile:
        exe.run(inputs, profile=True)
    if arguments.report:
        said.write(_report(exe))
    if arguments.report_json is not None:
        _write_json(exe, arguments.report_json)
    if arguments.trace is not None:
        exe.trace(arguments.trace)
    if arguments.explain is not None:
        exe.explain(arguments.explain)
    if arguments.outputs is not None:
        write_whole(arguments.outputs, npz_bytes(outputs))


def _check_memory(graph: GraphOp, device: ComputeDevice) -> None:
    """UsageError, before anything is drawn, where a graph's inputs cannot be on a device."""
    types = [argument.type for argument in graph.block.args]
    needed = sum(tensor_bytes(type) for type in types if isinstance(type, TensorType))
    if needed > device.handle.global_mem_size:
        raise UsageError(
            f"the inputs of graph '{graph.sym_name.data}' take {bytes_text(needed)}, "
            f"and {device.name} has {bytes_text(device.handle.global_mem_size)}"
        )


def _launch_times(exe: Executable) -> list[float]:
    return [item.seconds for item in exe.profile if item.kernel != "copy"]


def _write_json(exe: Executable, path: str) -> None:
    text = report_text(exe.report, _launch_times(exe))
    if path == "-":
        sys.stdout.write(text)
    else:
        write_whole(path, text.encode())


def _size_of(
    program: Module, graph: str, dimension: str, inputs: Mapping[str, np.ndarray]
) -> int | None:
    """The size that the inputs give a dimension, where they do."""
    for name, sizes in program.sizes_of(graph).items():
        if name in inputs and dimension in sizes and inputs[name].ndim == len(sizes):
            return inputs[name].shape[sizes.index(dimension)]
    return None


def _report(exe: Executable) -> str:
    """What was done, for the program that ran where there are several."""
    if isinstance(exe, SizedExecutable):
        return f"\n{exe.sizes}\n{_report_of(exe, exe.ran)}"
    return _report_of(exe, exe)


def _report_of(ran: Executable, exe: Executable) -> str:
    table = kernel_table(exe.report.kernels, _launch_times(ran), exe.report.device)
    return f"\n{exe.report}\n\n{table}\n"
