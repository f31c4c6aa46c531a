"""Names of a checkpoint's arrays and names of parameters: how one becomes the other.

In: a mapping from names of the file to those of parameters; or a rule `PATTERN=NAME`, or several,
of which the first counts that fits a whole name. Out: the names that the arrays have here. What no
rule fits keeps its name.

    renamed(r"transformer.(.*)=\\1")("transformer.h.0.attn") == "h.0.attn"
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from mgn.diagnostics import WrongType, spelled
from mgn.runtime.checkpoints.backtracking import MOST_WAYS, repetitions, takes_forever, ways
from mgn.runtime.errors import WeightsError
from mgn.runtime.host_arrays import shown

Rename = Mapping[str, str] | str | Sequence[str] | None
"""How arrays are renamed."""

_PARTS = 2
"""Parts of a name that a prefix has at most, for hints."""


def renamed(rename: Rename) -> Callable[[str], str]:
    """What gives a name its new one. WeightsError where a rule is none, TypeError for what is
    neither a mapping nor rules.
    """
    if rename is None:
        return lambda name: name
    if isinstance(rename, Mapping):
        names: list[object] = [*rename, *rename.values()]
        if not all(isinstance(item, str) for item in names):
            raise WrongType("rename: a mapping has names of the file and names of parameters")
        return lambda name: rename.get(name, name)
    listed = [rename] if isinstance(rename, str) else rename
    items: list[object] = [*listed] if isinstance(listed, list | tuple) else [None]
    if not all(isinstance(item, str) for item in items):
        said = type(rename).__name__
        raise WrongType(f"rename: a mapping, 'PATTERN=NAME' or a list of these, not {said}")
    rules = [_rule(text) for text in listed]

    def new_name(name: str) -> str:
        for rule in rules:
            if (given := rule(name)) is not None:
                return given
        return name

    return new_name


def _rule(text: str) -> Callable[[str], str | None]:
    """What gives a name its new one where a rule fits it, else None."""
    pattern, sign, name = text.partition("=")
    if not sign or not pattern or not name:
        raise WeightsError(
            f"a rule of renaming is PATTERN=NAME, such as 'model.(.*)=\\1', not {shown(text)}"
        )
    try:
        found = re.compile(pattern)
        made = re.compile(f"(?:{pattern})|").match("")
        assert made is not None
        made.expand(name)
        endless, repeated = takes_forever(pattern), repetitions(pattern)
    except (re.error, IndexError, RecursionError, OverflowError) as error:
        raise WeightsError(f"the rule of renaming {shown(text)}: {error}") from None
    if endless:
        raise WeightsError(
            f"the rule of renaming {shown(text)} repeats what is repeated or a choice, which can "
            r"take forever: write one repetition, as [\w.]* for (\w+\.)*"
        )

    def apply(given: str) -> str | None:
        if ways(repeated, len(given)) > MOST_WAYS:
            raise WeightsError(
                f"the rule of renaming {shown(text)} would take too long for a name of "
                f"{len(given)} characters: write fewer repetitions"
            )
        match = found.fullmatch(given)
        return None if match is None else match.expand(name)

    return apply


def prefix_hint(missing: Sequence[str], names: Iterable[str]) -> str:
    """Where the file's names are those of most missing parameters with one prefix: a hint that says
    which rule makes them one.
    """
    held = set(names)
    found: Counter[tuple[str, str]] = Counter()
    for side, longer, shorter in (("file", held, set(missing)), ("graph", set(missing), held)):
        for name in longer:
            parts = name.split(".")
            for count in range(1, min(len(parts), _PARTS + 1)):
                if ".".join(parts[count:]) in shorter:
                    found[side, ".".join(parts[:count])] += 1
    if not found:
        return ""
    (side, prefix), count = found.most_common(1)[0]
    if 2 * count < len(missing):
        return ""
    rule = f"{re.escape(prefix)}\\.(.*)=\\1" if side == "file" else f"(.*)={prefix}.\\1"
    given = spelled(f"rename = '{rule}'", f"--rename '{rule}'")
    return f"{given} would find {count} of those missing"
