"""`mgn-fmt`: files of the language in one style.

In: files, or `-` for stdin. Out: the files, each written whole or not at all, or the text on
stdout; with `--check` the names of those that would change. A file with errors stays as it is.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from mgn.commands.options.errors import FAILURE, guarded, say
from mgn.commands.options.parsers import make_tidy_parser
from mgn.diagnostics import DiagnosticsError, MgnError
from mgn.frontend.format_mgn import format_text
from mgn.frontend.syntax.source import Source, decode_source, read_source
from mgn.modules.files import write_whole

EXAMPLES = """\
examples:
  mgn-fmt model.mgn parts.mgn      write both in the style of the language
  mgn-fmt --check models           say which files of a folder would change, and exit with 1
  mgn-fmt - < model.mgn            the text of stdin on stdout
"""
STDIN = "-"


def main(argv: Sequence[str] | None = None) -> int:
    """The command, on the process's own arguments where none are given. Returns the exit status."""
    return guarded(lambda: _format(make_parser().parse_args(argv)))


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_tidy_parser("mgn-fmt", "Write .mgn files in one style.", EXAMPLES)
    parser.add_argument("files", nargs="+", help=".mgn files, folders of them, or - for stdin")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 where a file would change"
    )
    return parser


def _format(options: argparse.Namespace) -> int:
    failed = changed = False
    for name in options.files:
        try:
            paths = [name] if name == STDIN else _files_of(name)
        except MgnError as error:
            say(f"error: {error}")
            failed = True
            continue
        for path in paths:
            try:
                changed |= _format_one(path, options.check)
            except (DiagnosticsError, MgnError) as error:
                say(str(error) if isinstance(error, DiagnosticsError) else f"error: {error}")
                failed = True
    return FAILURE if failed or (changed and options.check) else 0


def _files_of(name: str) -> list[str]:
    """A file, or the `.mgn` files of a folder. MgnError for a folder without any, and for no name,
    which would be that of the folder that one is in.
    """
    if not name:
        raise MgnError("a file has an empty name; '.' is the folder that this runs in")
    path = Path(name)
    if not path.is_dir():
        return [str(path)]
    found = sorted(str(item) for item in path.rglob("*.mgn") if item.is_file())
    if not found:
        raise MgnError(f"there is no .mgn file in '{path}'")
    return found


def _format_one(name: str, check: bool) -> bool:
    """Whether a text changed, or would."""
    if name == STDIN:
        source = decode_source(sys.stdin.buffer.read(), "<stdin>")
    else:
        source = read_source(Path(name), name)
    made = format_text(source)
    if name == STDIN and not check:
        _print(made)
        return False
    if made == source.text:
        return False
    if check:
        say(f"{name}: would be formatted")
    else:
        _write(source, made)
        say(f"{name}: formatted")
    return True


def _print(text: str) -> None:
    """Writes UTF-8 to stdout, whatever encoding and line ends the terminal would have."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:
        sys.stdout.write(text)
    else:
        stream.write(text.encode("utf-8"))


def _write(source: Source, text: str) -> None:
    assert source.path is not None
    write_whole(source.path, text.encode("utf-8"))


if __name__ == "__main__":
    sys.exit(main())
