"""What the commands share: reading arguments that are more than a word.

In: text of the command line. Out: values.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

from mgn.commands.options.errors import UsageError
from mgn.diagnostics import MgnError, clipped

if TYPE_CHECKING:
    from mgn.driver.pipelines import Step
    from mgn.passes.saturate import SaturateOptions


def parse_sizes(items: Sequence[str]) -> dict[str, int | range]:
    """`["B=32", "S=1..512"]` as a mapping; both ends belong to a range. UsageError where one is
    neither `NAME=N` nor `NAME=A..B`.
    """
    ranges: dict[str, range] = {}
    for item in items:
        name, _, value = item.rpartition("=")
        first, dots, last = value.partition("..")
        if not dots:
            continue
        try:
            sizes = range(int(first, 0), int(last, 0) + 1)
        except ValueError:
            sizes = range(0)
        if not sizes or not name.strip():
            raise UsageError(f"--dim takes NAME=A..B, such as S=1..512, not '{clipped(item)}'")
        if ranges.setdefault(name.strip(), sizes) != sizes:
            raise UsageError(f"--dim gives '{name.strip()}' two ranges")
    single = parse_dimensions([item for item in items if ".." not in item])
    for name in ranges.keys() & single.keys():
        raise UsageError(f"--dim gives '{name}' a size and a range")
    return {**single, **ranges}


def parse_dimensions(items: Sequence[str]) -> dict[str, int]:
    """`["B=32", "S=128"]` as a mapping. UsageError where one is no `NAME=N`."""
    dimensions: dict[str, int] = {}
    for item in items:
        name, _, value = item.rpartition("=")
        if ".." in value:
            raise UsageError(
                f"--dim {clipped(item)}: a range is for runs of mgn-run and mgn-generate; here a "
                "dimension takes one size"
            )
        try:
            size = int(value, 0)
        except ValueError:
            size = None
        if size is None or not name.strip():
            raise UsageError(f"--dim takes NAME=N, such as B=32, not '{clipped(item)}'")
        if dimensions.setdefault(name.strip(), size) != size:
            raise UsageError(f"--dim gives '{name.strip()}' two sizes")
    return dimensions


def parse_shapes(items: Sequence[str]) -> dict[str, list[int]]:
    """`["x=1,3,48,320"]` as a mapping; `x=` is a scalar's. UsageError where one is no shape."""
    shapes: dict[str, list[int]] = {}
    for item in items:
        name, equals, text = item.rpartition("=")
        try:
            sizes = [int(size, 0) for size in text.split(",")] if text.strip() else []
        except ValueError:
            sizes = [-1]
        if not equals or not name.strip() or min(sizes, default=0) < 0:
            raise UsageError(
                f"--shape takes NAME=N,N,…, such as x=1,3,48,320, not '{clipped(item)}'"
            )
        if shapes.setdefault(name.strip(), sizes) != sizes:
            raise UsageError(f"--shape gives '{name.strip()}' two shapes")
    return shapes


def parse_constants(items: Sequence[str]) -> dict[str, int | float | list[int] | list[float]]:
    """`["sr=16000", "axes=1,2"]` as a mapping. UsageError where one is no number, nor several."""
    constants: dict[str, int | float | list[int] | list[float]] = {}
    for item in items:
        name, equals, text = item.rpartition("=")
        numbers = [_number(part) for part in text.split(",")]
        if not equals or not name.strip() or None in numbers:
            raise UsageError(
                f"--constant takes NAME=VALUE, such as sr=16000 or axes=1,2, not '{clipped(item)}'"
            )
        value = numbers if "," in text else numbers[0]
        if constants.setdefault(name.strip(), cast("Any", value)) != value:
            raise UsageError(f"--constant gives '{name.strip()}' two values")
    return constants


def _number(text: str) -> int | float | None:
    """A whole number, or a float; None where a text is neither."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None


def budget_of(arguments: Namespace) -> int | None:
    """The bytes that `--memory` names, if it is there. UsageError where it is no size."""
    if arguments.memory is None:
        return None
    from mgn.passes.rematerialise.budget import parse_bytes

    try:
        return parse_bytes(arguments.memory, "--memory")
    except MgnError as error:
        raise UsageError(str(error)) from None


def saturation_of(arguments: Namespace) -> "SaturateOptions | None":
    """What `--saturation` and `--prepare` ask for together."""
    found = parse_saturation(arguments.saturation)
    if arguments.prepare == "on":
        return found
    from mgn.passes.saturate import SaturateOptions

    return replace(found or SaturateOptions(), prepare=False)


def passes_of(arguments: Namespace) -> "tuple[Step, ...] | None":
    """The pipeline that `--passes` names, those of plugins among it; None for the default one."""
    if arguments.passes is None:
        return None
    from mgn.driver.pipelines import pipeline_of
    from mgn.plugins.loading import load_plugins

    load_plugins()
    return pipeline_of(arguments.passes)


def parse_saturation(text: str | None) -> "SaturateOptions | None":
    """`rules=exact time=2`, the options of the pass `saturate`. UsageError where they are not."""
    if text is None:
        return None
    from mgn.dialects.mgn.build import suggestion
    from mgn.passes.saturate import Saturate

    kinds = {item.name: item.type for item in fields(Saturate) if item.init}
    given: dict[str, Any] = {}
    for part in text.split():
        name, _, value = part.partition("=")
        if not value or not name.isidentifier() or set(value) & set(",="):
            raise UsageError(
                "--saturation takes NAME=VALUE, with spaces between several, such as "
                f"'rules=exact time=2', not '{clipped(text)}'; the names are {', '.join(kinds)}"
            )
        if name not in kinds:
            near = suggestion(name, [*kinds]) or f"; there are {', '.join(kinds)}"
            raise UsageError(f"--saturation knows no '{clipped(name)}'{near}")
        given[name] = _as_declared(name, value, kinds[name])
    try:
        return Saturate(**given).options
    except ValueError as error:
        raise UsageError(f"--saturation: {error}") from None


def _as_declared(name: str, text: str, kind: object) -> str | float | bool:
    """A value of one of the pass's options. UsageError where the text spells none."""
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise UsageError(f"--saturation: {name} takes true or false, not '{clipped(text)}'")
    if kind is float:
        try:
            seconds = float(text)
        except ValueError:
            seconds = -1.0
        if seconds >= 0:
            return seconds
        raise UsageError(f"--saturation: {name} takes a number of seconds, not '{clipped(text)}'")
    return text.strip("\"'")
