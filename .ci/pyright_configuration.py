"""Prints the configuration with which pyright checks the installed package, from beside it.

In: the table in pyproject.toml. Out: JSON on stdout.
"""

import json
import tomllib
from pathlib import Path


def main() -> None:
    """Writes the configuration."""
    project = Path(__file__).resolve().parent.parent / "pyproject.toml"
    table = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["pyright"]
    print(json.dumps({**table, "include": ["mgn"], "exclude": []}))


if __name__ == "__main__":
    main()
