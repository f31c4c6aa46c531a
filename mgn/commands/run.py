"""`mgn-run`: compiles one graph of a program for a device and runs it.

In: a `.mgn`, `.mlir` or `.onnx` file, and files of arrays. Out: one line for each result on
stdout, and, where asked for, files, the report, a trace, or what a stage of the compiler made of
the program.
"""

import argparse
import sys
from collections.abc import Sequence

from mgn.commands.options.checkpoints import add_checkpoint_options, check_checkpoint_options
from mgn.commands.options.errors import UsageError, guarded
from mgn.commands.options.parsers import (
    add_memory_option,
    add_program_options,
    add_resident_option,
    make_tidy_parser,
)
from mgn.driver.precision import PRECISIONS

EXAMPLES = """\
examples:
  mgn-run mlp.mgn                                       on random inputs and initial parameters
  mgn-run model.onnx --dim batch=1                      on random inputs and its own weights
  mgn-run vad.onnx --shape input=1,512 --constant sr=16000
  mgn-run mlp.mgn --graph mlp --dim B=32 --seed 7
  mgn-run mlp.mgn --params w.safetensors --inputs in.npz --outputs out.npz
  mgn-run mlp.mgn --report --repeat 20                  what the compiler did, and kernel times
  mgn-run mlp.mgn --tune 60 --report                    measured schedules, kept for later runs
  mgn-run mlp.mgn --explain=out.html                    why these kernels: a page for a browser
  mgn-run mlp.mgn --trace trace.json                    open it in https://ui.perfetto.dev
  mgn-run mlp.mgn --emit=fusion                         the kernels that the e-graph chose
  mgn-run mlp.mgn --emit=package -o mlp.mgnpkg          for mgn.load_package, and for C
  mgn-run mlp.mgnpkg --inputs x.npz                     runs it, without compiling
  mgn-run --list-devices -v
  mgn-run --list-devices --probe                        measures the devices again
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command, on the process's own arguments where none are given. Returns the exit status."""
    return guarded(lambda: _run(make_parser().parse_args(argv)))


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_tidy_parser(
        "mgn-run", "Compile a tensor program for an OpenCL device and run it.", EXAMPLES
    )
    add = parser.add_argument
    add("file", nargs="?", help="a .mgn, .mlir, .onnx or .mgnpkg file; - is stdin")
    add("-f", "--frontend", choices=["mgn", "mlir"], help="the language of the file")
    add = add_program_options(parser, "the graph to run, where there are several", ranges=True)
    add(
        "--mode",
        choices=["inference", "training"],
        default="inference",
        help="in training, a run is a step of AdamW; mgn-train does many",
    )
    add(
        "--shape",
        action="append",
        default=[],
        metavar="NAME=N,N,…",
        help="the shape of an input of an ONNX model, such as x=1,3,48,320; may be repeated",
    )
    add(
        "--constant",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a number that an input of an ONNX model always has, such as sr=16000, or several "
        "with commas between them; may be repeated",
    )
    add("--loss", default="loss", metavar="NAME", help="the result that training makes small")
    add(
        "--precision",
        choices=PRECISIONS,
        default="f32",
        help="what f32 products read is rounded to, and activations stored in (default: f32)",
    )
    add(
        "--saturation",
        metavar="OPTIONS",
        help="what the e-graph may do, as options of the pass: 'rules=exact time=2 prepare=false'",
    )
    add(
        "--passes",
        metavar="PASSES",
        help="passes to compile with, as mgn-opt takes them, such as 'my-pass,default'",
    )
    add(
        "--prepare",
        choices=["on", "off"],
        default="on",
        help="compute what parameters alone decide once, and keep it (default), or in each run: "
        "off takes less memory",
    )
    add_memory_option(add)
    data = parser.add_argument_group("arrays")
    add = data.add_argument
    add("--inputs", metavar="FILE", help=".npz or .safetensors by input name (default: random)")
    add_checkpoint_options(add, "the initialisers")
    add(
        "--states",
        metavar="FILE",
        help="set states by external name before the first run; of a checkpoint of training, those "
        "that the graph has",
    )
    add("--outputs", metavar="FILE.npz", help="write the results here")
    add("--seed", type=int, default=0, metavar="N", help="what random arrays are drawn from")
    device = parser.add_argument_group("the device")
    add = device.add_argument
    add("--device", default="auto", metavar="SELECTOR", help="auto, cpu, gpu, 0:1, part of a name")
    add(
        "--target",
        choices=["opencl", "spirv", "auto"],
        default="auto",
        help="the form of the kernels (default: what is quicker on the device)",
    )
    add(
        "--tune",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="search for better schedules by measuring, and keep them for later runs",
    )
    add_resident_option(add)
    add("--list-devices", action="store_true", help="print what can be used; -v: with figures")
    add("--probe", action="store_true", help="with --list-devices: measure them again")
    add("-v", "--verbose", action="store_true", help="say more")
    views = parser.add_argument_group("looking on")
    add = views.add_argument
    add("--repeat", type=int, default=1, metavar="N", help="run N times and print the median time")
    add("--report", action="store_true", help="print the optimisation report and a kernel table")
    add(
        "--report-json",
        metavar="FILE",
        help="write the same as JSON, with the time of each launch; - is stdout, and all else is "
        "on stderr then",
    )
    add(
        "--explain",
        metavar="FILE.html",
        help="write a page that says how each kernel came about, and what it costs",
    )
    add("--trace", metavar="FILE.json", help="write the launches' times for Perfetto")
    add(
        "--emit",
        metavar="STAGE",
        help="print the program at a stage and stop: mgn, mlir, simplified, fusion, scheduled, "
        "kernel, plan, opencl, spirv-asm, or package: a file that runs without the compiler",
    )
    add("-o", "--output", metavar="FILE", help="write what --emit gives here")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    if arguments.repeat < 1:
        raise UsageError("--repeat takes a number of at least 1")
    if arguments.seed < 0:
        raise UsageError("--seed takes a number of at least 0")
    if not 0 <= arguments.tune < float("inf"):
        raise UsageError("--tune takes a number of seconds")
    if arguments.list_devices:
        from mgn.commands.printing.devices import device_listing

        sys.stdout.write(device_listing(arguments.verbose, arguments.probe))
        return 0
    if arguments.probe:
        raise UsageError("--probe goes with --list-devices")
    if arguments.file is None:
        raise UsageError("which program? 'mgn-run --help' shows examples")
    check_checkpoint_options(arguments)
    if arguments.output is not None and arguments.emit is None:
        raise UsageError("-o takes what --emit gives; --outputs FILE.npz takes the results")
    if arguments.file.lower().endswith(".mgnpkg"):
        from mgn.commands.actions.packaged import execute_package

        execute_package(arguments, make_parser().parse_args([]))
        return 0
    if arguments.emit is not None:
        _refuse_run_options(arguments)
        _emit(arguments)
        return 0
    from mgn.commands.actions.execution import execute

    execute(arguments)
    return 0


def _refuse_run_options(arguments: argparse.Namespace) -> None:
    for option in ("outputs", "trace", "explain", "report", "report_json"):
        if getattr(arguments, option):
            option = option.replace("_", "-")
            raise UsageError(f"--{option} needs a run, and --emit stops before it")


def _emit(arguments: argparse.Namespace) -> None:
    """Writes a stage of the program to the file that -o names, or to stdout."""
    from mgn.commands.printing.stages import PACKAGE, emit_stage
    from mgn.modules.files import write_whole

    if arguments.emit == PACKAGE:
        from mgn.commands.actions.packaging import emit_package

        if arguments.output is None:
            raise UsageError("a package is a binary; -o model.mgnpkg names a file for it")
        write_whole(arguments.output, emit_package(arguments))
    elif arguments.output is None:
        sys.stdout.write(emit_stage(arguments))
    else:
        write_whole(arguments.output, emit_stage(arguments).encode())


if __name__ == "__main__":
    sys.exit(main())
