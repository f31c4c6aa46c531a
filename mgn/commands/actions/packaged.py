"""`mgn-run model.mgnpkg`: arrays in, a graph that was compiled ahead of time, results out.

In: the arguments. Out: lines on stdout, remarks on stderr, files. No part of the compiler runs.
"""

import argparse
import sys

import numpy as np

from mgn.codegen.launch_plan import BufferKind
from mgn.commands.actions.results import check_targets, output_line, timing_line
from mgn.commands.options.checkpoints import say_loaded, set_states
from mgn.commands.options.errors import UsageError, say
from mgn.modules.files import npz_bytes, write_whole
from mgn.modules.random_arrays import sample_array
from mgn.runtime.packages.load import PackagedExecutable, load_package
from mgn.runtime.weights import load_arrays

COMPILING = (
    *(
        "frontend",
        "graph",
        "dim",
        "shape",
        "constant",
        "mode",
        "loss",
        "precision",
        "saturation",
        "passes",
        "prepare",
    ),
    *("memory", "target", "tune", "resident", "report", "report_json", "explain", "emit"),
)
"""Options that say how a program is compiled, or what the compiler did."""


def execute_package(arguments: argparse.Namespace, unset: argparse.Namespace) -> None:
    """Runs a package, and prints its results. `unset`: what options are where none is given."""
    for option in COMPILING:
        if getattr(arguments, option) != getattr(unset, option):
            raise UsageError(
                f"a package is compiled already: --{option.replace('_', '-')} has nothing to act on"
            )
    check_targets(arguments)
    exe = load_package(arguments.file, arguments.device)
    if arguments.params is not None:
        exe.load_params(arguments.params, arguments.rename, arguments.params_dtype)
        if exe.loaded is not None:
            say_loaded(exe.loaded)
    set_states(exe.state, arguments)
    inputs = load_arrays(arguments.inputs) if arguments.inputs else _drawn(exe, arguments.seed)
    outputs = exe.run(inputs)
    lines = [output_line(label, array) for label, array in outputs.items()]
    lines += [output_line(f"state {name}", array) for name, array in exe.state.items()]
    sys.stdout.write("\n".join(lines) + "\n")
    if arguments.repeat > 1:
        sys.stdout.write(timing_line(exe, inputs, arguments.repeat) + "\n")
    if arguments.trace is not None:
        exe.run(inputs, profile=True)
        exe.trace(arguments.trace)
    if arguments.outputs is not None:
        write_whole(arguments.outputs, npz_bytes(outputs))


def _drawn(exe: PackagedExecutable, seed: int) -> dict[str, np.ndarray]:
    """A random array for each input of a package, which does not say what integers index."""
    samples = {
        item.name: sample_array(item.name, item.element, item.shape, seed)
        for _, item in exe.plan.of_kind(BufferKind.INPUT)
    }
    for item in samples.values():
        say(f"random input {item.description}")
    return {name: item.array for name, item in samples.items()}
