"""All models of the zoo, and which of them a command line chooses."""

import argparse
import sys

from benchmarks.zoo.entry import Entry
from benchmarks.zoo.images import IMAGES
from benchmarks.zoo.sounds import SOUNDS
from benchmarks.zoo.texts import TEXTS
from mgn.commands.options.arguments import parse_dimensions
from mgn.commands.options.errors import UsageError

ENTRIES: tuple[Entry, ...] = (*IMAGES, *TEXTS, *SOUNDS)


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Arguments that choose models, and their sizes."""
    known = ", ".join(entry.name for entry in ENTRIES)
    parser.add_argument("names", nargs="*", help=f"of {known}")
    parser.add_argument("--dim", action="append", default=[], help="NAME=N: another size")


def chosen(parser: argparse.ArgumentParser, options: argparse.Namespace) -> list[Entry]:
    """The models that are chosen, all without a name, of the sizes that are given. Those whose peer
    is not installed are left out, and named on stderr. Unknown names end the command.
    """
    known = [entry.name for entry in ENTRIES]
    unknown = sorted({*options.names} - {*known})
    if unknown:
        parser.error(f"there is no model {', '.join(unknown)}; there are {', '.join(known)}")
    try:
        dims = parse_dimensions(options.dim)
    except UsageError as error:
        parser.error(str(error))
    found: list[Entry] = []
    for entry in ENTRIES:
        if options.names and entry.name not in options.names:
            continue
        if missing := " and ".join(entry.missing):
            print(f"{entry.name}: left out, without {missing}", file=sys.stderr)
            continue
        found.append(entry.resized(dims))
    return found
