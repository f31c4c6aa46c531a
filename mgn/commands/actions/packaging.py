"""`mgn-run --emit=package -o FILE`: compiles a graph to a file that runs without the compiler.

In: the arguments of `mgn-run`. Out: the bytes of a `.mgnpkg` file, and a line on stderr that says
what it holds. Parameters are embedded where `--params` names a file of them, or the program itself
has their values, as an ONNX model does.
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mgn.commands.options.arguments import budget_of, parse_dimensions, passes_of, saturation_of
from mgn.commands.options.checkpoints import say_loaded
from mgn.commands.options.errors import UsageError, say
from mgn.commands.printing.stages import device_of, program_of
from mgn.driver.packaging import package_graph
from mgn.driver.quantities import counted
from mgn.runtime.block_parameters import planned_values, whole_name
from mgn.runtime.checkpoints.load import load_params
from mgn.runtime.packages.format import Package
from mgn.runtime.packages.writer import package_bytes


def emit_package(arguments: argparse.Namespace) -> bytes:
    """The package of the graph that the arguments describe."""
    if arguments.mode == "training":
        raise UsageError("a package holds a graph for inference; --mode training runs here")
    program = program_of(arguments, arguments.shape, arguments.constant)
    module = program.lower(program.choose_graph(arguments.graph), parse_dimensions(arguments.dim))
    device, saturation = device_of(arguments.device), saturation_of(arguments)
    pipeline, memory = passes_of(arguments), budget_of(arguments)
    package = package_graph(module, device, arguments.precision, saturation, pipeline, memory)
    if arguments.params is not None:
        rename, dtype = arguments.rename, arguments.params_dtype
        loaded = load_params(arguments.params, package.expected, rename, dtype)
        say_loaded(loaded.report)
        values: Mapping[str, np.ndarray] = loaded
    else:
        values = {name: v for name, v in program.values.items() if name in package.expected}
    package = replace(package, parameters=planned_values(values, package.expected))
    data = package_bytes(package)
    say(_summary(package, len(data)))
    return data


def _summary(package: Package, size: int) -> str:
    spirv = sum(kernel.spirv is not None for kernel in package.kernels.values())
    held = len({*map(whole_name, package.parameters)})
    expected = len(package.expected)
    lines = [
        f"{package.plan.name} for {package.device}: {counted(len(package.kernels), 'kernel')}, "
        f"{spirv} of them also as SPIR-V; {held} of {counted(expected, 'parameter')} embedded; "
        f"{size:,} bytes"
    ]
    if held < expected:
        lines.append("the others have to be loaded before a run; --params embeds them")
    return "\n".join(lines)
