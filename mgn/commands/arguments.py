"""What the commands share: reading arguments that are more than a word.

In: text of the command line. Out: values.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mgn.commands.errors import UsageError

if TYPE_CHECKING:
    from mgn.passes.saturate import SaturateOptions


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


def parse_saturation(text: str | None) -> "SaturateOptions | None":
    """`rules=exact time=2`, the options of the pass `saturate`. UsageError where they are not."""
    if text is None:
        return None
    from mgn.passes.saturate import Saturate
    from mgn.pipelines import PipelineError, parse_passes

    try:
        passes = parse_passes(f"saturate{{{text}}}")
    except PipelineError as error:
        raise UsageError(f"--saturation: {error}") from None
    (only,) = passes if len(passes) == 1 else (None,)
    if not isinstance(only, Saturate):
        raise UsageError(f"--saturation takes options of the pass saturate, not '{text}'")
    return only.options
