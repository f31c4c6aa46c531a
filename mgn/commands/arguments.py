"""What the commands share: reading `NAME=N` arguments.

In: text of the command line. Out: values.
"""

from collections.abc import Sequence

from mgn.commands.errors import UsageError


def parse_dimensions(items: Sequence[str]) -> dict[str, int]:
    """`["B=32", "S=128"]` as a mapping. UsageError where one is no `NAME=N`."""
    dimensions: dict[str, int] = {}
    for item in items:
        name, _, value = item.partition("=")
        try:
            size = int(value, 0)
        except ValueError:
            size = None
        if size is None or not name.strip().isidentifier():
            raise UsageError(f"--dim takes NAME=N, such as B=32, not '{item}'")
        if dimensions.setdefault(name.strip(), size) != size:
            raise UsageError(f"--dim gives '{name.strip()}' two sizes")
    return dimensions
