"""`mgn-lsp`: the language server, which editors start and speak to over stdin and stdout.

In: messages of the language server protocol. Out: answers of the same.
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout

from mgn.commands.options.errors import guarded
from mgn.commands.options.parsers import make_tidy_parser
from mgn.diagnostics import MgnError

EXAMPLES = """\
An editor starts the command; the page "Editors" of the documentation says how, for each editor.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command, on the process's own arguments where none are given. Returns the exit status."""
    return guarded(lambda: _serve(make_parser().parse_args(argv)))


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_tidy_parser("mgn-lsp", "Serve editors of .mgn files over stdio.", EXAMPLES)
    parser.add_argument(
        "--stdio", action="store_true", help="what editors pass to say that they use stdio"
    )
    return parser


def _serve(_: argparse.Namespace) -> int:
    try:
        from mgn.lsp.features import make_server
    except ImportError as error:
        if (error.name or "").split(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise MgnError(
            "the language server needs pygls: python -m pip install 'mgn-compiler[lsp]' brings it"
        ) from None
    if sys.stdin.isatty():
        raise MgnError("an editor starts mgn-lsp and speaks to it; mgn-fmt formats files")
    if not os.environ.get("MGN_TRACEBACK"):  # an editor shows what an answer says
        logging.getLogger("pygls").setLevel(logging.CRITICAL)
    # What anything else prints must not come between the messages.
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as channel, redirect_stdout(sys.stderr):
        server = make_server()
        try:
            server.start_io(sys.stdin.buffer, channel)
        finally:
            server.stop_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
