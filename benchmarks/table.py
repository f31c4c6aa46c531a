"""Rows that are printed and kept in a file as they are measured, so that a run may be cut short.

In: dictionaries of one kind of row. Out: aligned lines of text, and JSON.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NUMBER_WIDTH = 9
"""The least width of a column: so long is a number of four digits with an exponent."""


class Table:
    """Text under a head, which is printed with the first row, and again with new columns.

    `width` is that of the first column; columns that are `hidden` are for the file alone.
    """

    def __init__(self, width: int, hidden: tuple[str, ...] = ()) -> None:
        self.width, self.hidden = width, hidden
        self.names: list[str] = []

    def print(self, row: Mapping[str, Any]) -> None:
        """Prints a row; what it has not is left blank."""
        new = [name for name in row if name not in (*self.names, *self.hidden)]
        if new:
            self.names += new
            self._print(self.names)
        cells = [row.get(name, "") for name in self.names]
        self._print([f"{c:.4g}" if isinstance(c, float) else str(c) for c in cells])

    def _print(self, cells: list[str]) -> None:
        first, *others = cells
        widths = [max(len(name), NUMBER_WIDTH) for name in self.names[1:]]
        aligned = [cell.rjust(width) for cell, width in zip(others, widths, strict=True)]
        print("  ".join((first.ljust(self.width), *aligned)), flush=True)


def keep(value: object, path: Path | None) -> None:
    """Writes a file of what was measured so far, if one is asked for."""
    if path is not None:
        path.write_text(json.dumps(value, indent=1) + "\n")
