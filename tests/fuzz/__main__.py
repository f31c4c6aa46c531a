"""`python -m tests.fuzz`: random programs and mutated inputs, for as long as asked.

python -m tests.fuzz --minutes 30                           programs, on the CPU
python -m tests.fuzz --count 100000 --processes 16 --device gpu
python -m tests.fuzz --count 5000 --device none --modules 4  without OpenCL
python -m tests.fuzz --minutes 10 --what inputs             texts and files, mutated
"""

import argparse
import sys
from importlib import import_module

from tests.fuzz.campaign import Options

KINDS = {"programs": "tests.fuzz.campaign", "inputs": "tests.fuzz.bad_inputs.driver"}
"""What can be fuzzed, and the module whose `main` takes the options and gives an exit status."""


def options_of(arguments: list[str]) -> Options:
    """The options of a command line; one without an end runs for a minute."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, help="how long to run")
    parser.add_argument("--count", type=int, help="how many programs or inputs to try")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first program")
    parser.add_argument("--device", default="cpu", help="an OpenCL device's selector, or none")
    parser.add_argument("--what", choices=[*KINDS, "all"], default="programs")
    modules = "how many optimised modules of each program the interpreter runs (default 1)"
    parser.add_argument("--modules", type=int, default=1, help=modules)
    ways = "in how many ways each program is compiled for the device, 1 to 4 (default 2)"
    parser.add_argument("--ways", type=int, default=2, choices=range(1, 5), help=ways)
    share = "the share of programs that are run on the device too, 0 to 1 (default 1)"
    parser.add_argument("--share", type=float, default=1.0, help=share)
    given = parser.parse_args(arguments)
    if given.minutes is None and given.count is None:
        given.minutes = 1.0
    return Options(**vars(given))


def main(arguments: list[str]) -> int:
    """Runs what is asked for; 1 where anything was found."""
    options = options_of(arguments)
    wanted = list(KINDS) if options.what == "all" else [options.what]
    return max(import_module(KINDS[name]).main(options) for name in wanted)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
