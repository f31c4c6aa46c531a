"""Prints pyright's configuration for a folder: the table in pyproject.toml, with that folder to check.

In: the folder of the installed package. Out: JSON on stdout.
"""

import json
import sys
import tomllib
from pathlib import Path


def main() -> None:
    """Writes the configuration."""
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    table = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["pyright"]
    print(json.dumps({**table, "include": [sys.argv[1]], "exclude": []}))


if __name__ == "__main__":
    main()
