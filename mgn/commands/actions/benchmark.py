"""The main work of `mgn-bench`: a program compiled, compared with its peers, timed.

In: the arguments. Out: the table; the same as JSON in the file of `--json`.
"""

import argparse
import json
from pathlib import Path

from mgn.api import compile
from mgn.bench.comparison import compared, plain, table
from mgn.bench.peers import PEERS, Subject
from mgn.commands.options.arguments import parse_dimensions
from mgn.commands.options.checkpoints import set_parameters
from mgn.commands.options.errors import UsageError, say
from mgn.commands.printing.stages import program_of
from mgn.dialects.mgn.structure import graphs_of
from mgn.driver.quantities import seconds_text
from mgn.modules.files import check_apart, check_target, write_whole
from mgn.modules.sampling import sample_inputs
from mgn.runtime.weights import load_arrays


def benchmark(arguments: argparse.Namespace) -> str:
    """The table of a graph, with a line above it that says what was timed."""
    against = [name.strip() for name in arguments.against.split(",") if name.strip()]
    unknown = [name for name in against if name not in PEERS]
    if unknown:
        raise UsageError(f"--against knows no '{unknown[0]}'; there are {', '.join(PEERS)}")
    arguments.output = arguments.json
    program = program_of(arguments)
    if arguments.json is not None:
        check_target(arguments.json)
        check_apart(arguments.json, program.files)
    executable = compile(
        program,
        program.choose_graph(arguments.graph),
        parse_dimensions(arguments.dim),
        arguments.device,
        seed=arguments.seed,
        precision=arguments.precision,
        tune=arguments.tune,
    )
    set_parameters(executable, arguments)
    if arguments.inputs:
        inputs = load_arrays(arguments.inputs)
    else:
        samples = sample_inputs(next(graphs_of(executable.recipe.lower())), arguments.seed)
        for item in samples.values():
            say(f"random input {item.description}")
        inputs = {name: item.array for name, item in samples.items()}
    path = Path(arguments.file)
    model = path if path.suffix.lower() == ".onnx" and arguments.frontend is None else None
    rows = compared(
        Subject(executable, inputs, model), against, arguments.tolerance, arguments.turns or 0
    )
    report = executable.report
    if arguments.json is not None:
        shown = {"graph": report.graph, "device": executable.device.name, "rows": plain(rows)}
        text = json.dumps({**shown, "precision": report.precision}, indent=1, allow_nan=False)
        write_whole(arguments.json, (text + "\n").encode())
    ceiling = f"ceiling {seconds_text(report.roofline_seconds)}"
    head = f"graph {report.graph} on {executable.device.name}, {report.kernels_text}, {ceiling}"
    return f"{head}\n{table(rows)}\n"
