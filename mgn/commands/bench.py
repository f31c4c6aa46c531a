"""`mgn-bench`: times a graph, alone or beside other libraries in one run.

In: a `.mgn`, `.mlir` or `.onnx` file, and files of arrays. Out: a table on stdout, and as JSON in a
file where asked for; remarks on stderr.
"""

import argparse
import sys
from collections.abc import Sequence

from mgn.commands.options.checkpoints import add_checkpoint_options, check_checkpoint_options
from mgn.commands.options.errors import UsageError, guarded
from mgn.commands.options.parsers import add_program_options, make_tidy_parser
from mgn.driver.precision import PRECISIONS

EXAMPLES = """\
examples:
  mgn-bench mlp.mgn                                     the time, and the share of the ceiling
  mgn-bench mlp.mgn --against torch,inductor,tinygrad   all in turns, once they agree
  mgn-bench model.onnx --against onnxruntime --dim batch=1
  mgn-bench mlp.mgn --device gpu --precision tf32 --against torch --json times.json
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command, on the process's own arguments where none are given. Returns the exit status."""
    return guarded(lambda: _run(make_parser().parse_args(argv)))


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_tidy_parser(
        "mgn-bench", "Time a graph on an OpenCL device, alone or beside other libraries.", EXAMPLES
    )
    add = parser.add_argument
    add("file", help="a .mgn, .mlir or .onnx file; - is stdin")
    add("-f", "--frontend", choices=["mgn", "mlir"], help="the language of the file")
    add(
        "--against",
        default="",
        metavar="PEERS",
        help="of torch, inductor (torch.compile), onnxruntime, tinygrad, with commas between "
        "several (extra: bench)",
    )
    add = add_program_options(parser, "the graph to time, where there are several")
    add("--precision", choices=PRECISIONS, default="f32", help="what products may round to")
    data = parser.add_argument_group("arrays")
    add = data.add_argument
    add("--inputs", metavar="FILE", help=".npz or .safetensors by input name (default: random)")
    add_checkpoint_options(add, "the initialisers")
    add("--seed", type=int, default=0, metavar="N", help="what random arrays are drawn from")
    times = parser.add_argument_group("times")
    add = times.add_argument
    add("--device", default="auto", metavar="SELECTOR", help="auto, cpu, gpu, 0:1, part of a name")
    add(
        "--tune",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="search for better schedules first",
    )
    add(
        "--turns",
        type=int,
        metavar="N",
        help="how many turns each has (default: 6 on a processor, 2 on a GPU)",
    )
    add(
        "--tolerance",
        type=float,
        metavar="E",
        help="the largest difference of results relative to the largest magnitude (default: 1e-4 "
        "in f32)",
    )
    add("--json", metavar="FILE", help="write the table here as JSON")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.turns is not None and arguments.turns < 1:
        raise UsageError("--turns takes a number of at least 1")
    if arguments.seed < 0:
        raise UsageError("--seed takes a number of at least 0")
    if not 0 <= arguments.tune < float("inf"):
        raise UsageError("--tune takes a number of seconds")
    if arguments.tolerance is not None and not arguments.tolerance >= 0:
        raise UsageError("--tolerance takes a number of at least 0")
    check_checkpoint_options(arguments)
    from mgn.commands.actions.benchmark import benchmark

    sys.stdout.write(benchmark(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main())
