"""`mgn-opt`: reads a program, verifies it, runs passes over it and prints it.

In: a `.mgn`, `.mlir` or `.spv` file, or stdin. Out: the result on stdout or in `-o`'s file, and
only if all went well; everything else on stderr. The exit status is 0 or 1.
"""

import argparse
import sys
from collections.abc import Sequence

from mgn.commands.options.errors import Failed, UsageError, guarded
from mgn.commands.options.parsers import add_program_options, make_tidy_parser

EXAMPLES = """\
examples:
  mgn-opt mlp.mgn                                  the program as MLIR text
  mgn-opt mlp.mgn -p simplify,saturate             cut into kernels by the e-graph
  mgn-opt mlp.mgn -p default -t opencl             the OpenCL C of all kernels
  mgn-opt mlp.mgn -p default -t spirv -o mlp.spv   the same kernels as SPIR-V
  mgn-opt mlp.spv                                  a SPIR-V binary as text
  mgn-opt mlp.mgn -p default -t plan               the memory plan and the launches
  mgn-opt mlp.mgn --graph mlp --dim B=32 -o b32.mlir
  mgn-opt mlp.mgn -p default --print-ir-after-change --timing > /dev/null
  mgn-opt mlp.mlir -p 'plan-memory{alignment=512}'
  cat mlp.mgn | mgn-opt -f mgn - -t mgn            the same program, pretty-printed
  mgn-opt mlp.mgn --pass-pipeline 'builtin.module(simplify,saturate{rules=exact})'
  mgn-opt mlp.mgn --print-op-generic               in the form that every tool of MLIR reads
  mgn-opt --list-passes

--verify-diagnostics compares messages with comments in the text instead of printing a result:
  // expected-error {{part of the message}}, also @+1, @-1, @below, @above, @unknown after 'error'
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command, on the process's own arguments where none are given. Returns the exit status."""
    return guarded(lambda: _run(make_parser().parse_args(argv)))


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_tidy_parser(
        "mgn-opt", "Run compiler passes over a tensor program and print the result.", EXAMPLES
    )
    add = parser.add_argument
    add("file", nargs="?", default="-", help="a .mgn, .mlir or .spv file; - or nothing is stdin")
    add("-o", "--output", metavar="FILE", help="write the result here instead of to stdout")
    add(
        "-f",
        "--frontend",
        choices=["mgn", "mlir", "spirv"],
        help="the language of the input (default: by the file's extension; stdin: mlir)",
    )
    add(
        "-p",
        "--passes",
        "--pass-pipeline",
        metavar="PASSES",
        default="",
        help="passes to run, as 'pass,pass{option=value}', also in 'builtin.module(…)', or a "
        "pipeline: default, inference, training",
    )
    add(
        "-t",
        "--target",
        default="mlir",
        metavar="TARGET",
        help="what to print (default: mlir); --list-targets names all",
    )
    add(
        "--print-op-generic",
        "--mlir-print-op-generic",
        action="store_true",
        help="print every operation in MLIR's generic form, which any tool of MLIR reads",
    )
    add = add_program_options(parser, "keep this graph only")
    add("--device", metavar="NAME", help="compile for a device of the table: cpu, nvidia-h200")
    checks = parser.add_argument_group("checks")
    add = checks.add_argument
    add(
        "--split-input-file",
        "--mlir-split-input-file",
        action="store_true",
        help="treat each part of the text between '// -----' lines on its own",
    )
    add(
        "--verify-diagnostics",
        "--mlir-verify-diagnostics",
        action="store_true",
        help="check the messages against expected-error {{...}} comments; print no result",
    )
    add(
        "--verify-each",
        "--mlir-verify-each",
        action="store_true",
        help="verify the program after every pass, not only after the last",
    )
    views = parser.add_argument_group("looking on (to stderr)")
    for name, what in (
        ("before-all", "before each pass"),
        ("after-all", "after each pass"),
        ("after-change", "after each pass that changed it"),
    ):
        views.add_argument(
            f"--print-ir-{name}",
            f"--mlir-print-ir-{name}",
            action="store_true",
            help=f"print the program {what}",
        )
    views.add_argument(
        "--timing", "--mlir-timing", action="store_true", help="print the time of each step"
    )
    lists = parser.add_argument_group("lists")
    for name, what in (
        ("passes", "all passes"),
        ("dialects", "all dialects"),
        ("targets", "all targets"),
        ("rules", "all rewrite rules of the e-graph"),
        ("predicates", "what the condition of a rule can ask"),
    ):
        lists.add_argument(f"--list-{name}", action="store_true", help=f"print {what}")
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from mgn.commands.printing import listing
    from mgn.plugins.loading import load_plugins

    load_plugins()
    for name, text_of in listing.LISTS.items():
        if getattr(arguments, f"list_{name}"):
            sys.stdout.write(text_of())
            return 0
    from mgn.commands.actions.processing import process

    if arguments.file == "-" and arguments.frontend is None:
        arguments.frontend = "mlir"
    result = process(arguments)
    if result is None:
        raise Failed
    if arguments.output is None or arguments.output == "-":
        _print(result)
    else:
        from mgn.modules.files import write_whole

        write_whole(arguments.output, result.encode() if isinstance(result, str) else result)
    return 0


def _print(result: str | bytes) -> None:
    if isinstance(result, str):
        sys.stdout.write(result)
        return
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None or sys.stdout.isatty():
        raise UsageError("the result is a binary; -o names a file for it")
    sys.stdout.flush()
    stream.write(result)


if __name__ == "__main__":
    sys.exit(main())
