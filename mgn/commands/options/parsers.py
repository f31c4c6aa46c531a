"""The part of a command line that `mgn-opt` and `mgn-run` share.

In: a command's name, description and examples. Out: its parser, with the options that say which
graph of a program is meant and what its dimensions are.
"""

import argparse
from collections.abc import Callable

from mgn.commands.options.errors import TidyArgumentParser
from mgn.driver.residency import RESIDENCIES
from mgn.version import VERSION


def make_tidy_parser(prog: str, description: str, examples: str) -> argparse.ArgumentParser:
    """A parser that shows examples under its help, takes no abbreviations and has `--version`."""
    parser = TidyArgumentParser(
        prog=prog,
        description=description,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"{prog} {VERSION}",
        help="print the version of mgn and stop",
    )
    return parser


def add_resident_option(add: Callable[..., argparse.Action]) -> None:
    """Adds `--resident`."""
    add(
        "--resident",
        choices=RESIDENCIES,
        default="auto",
        help="make runs of kernels one launch where that is faster: on GPUs (default), on CPUs "
        "too, where one core runs them, or never",
    )


def add_memory_option(add: Callable[..., argparse.Action]) -> None:
    """Adds `--memory`."""
    add(
        "--memory",
        metavar="SIZE",
        help="the most device memory that a run may take, such as 4GiB: kernels are run in another "
        "order, or twice, to stay below it",
    )


def add_program_options(
    parser: argparse.ArgumentParser, graph: str, ranges: bool = False
) -> Callable[..., argparse.Action]:
    """Adds `--graph`, with its help, and `--dim`, which may take `ranges`; gives what adds more
    options to their group.
    """
    program = parser.add_argument_group("the program")
    program.add_argument("--graph", metavar="NAME", help=graph)
    program.add_argument(
        "--dim",
        action="append",
        default=[],
        metavar="NAME=N",
        help="bind a dimension parameter, or give an integer const another value; "
        + "A..B in the place of N takes all sizes from A to B; " * ranges
        + "may be repeated",
    )
    return program.add_argument
