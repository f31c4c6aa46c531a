"""Parameters by patterns: regular expressions that are searched for in external names.

In: patterns and names. Out: the names that match, or the factor of one. A pattern that matches none
is an error, since it is most often a misspelt one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from mgn.diagnostics import MgnError

Patterns = str | Sequence[str]

_SHOWN = 8
"""Names that a message lists."""


def matching(patterns: Patterns, names: Iterable[str], what: str) -> list[str]:
    """The names in which one of the patterns is found, in order. MgnError where one is in none."""
    listing = [patterns] if isinstance(patterns, str) else list(patterns)
    known = list(names)
    check_patterns(listing, known, what)
    return [name for name in known if any(re.search(pattern, name) for pattern in listing)]


def factor_of(factors: Iterable[Mapping[str, float]], name: str) -> float:
    """The factor of the first pattern that is found in a name; 1 where none is."""
    patterns = (pair for item in factors for pair in item.items())
    return float(next((factor for pattern, factor in patterns if re.search(pattern, name)), 1.0))


def check_patterns(patterns: Iterable[str], names: Sequence[str], what: str) -> None:
    """MgnError for a pattern that is no regular expression, or is found in no name."""
    for pattern in patterns:
        try:
            compiled = re.compile(pattern)
        except (re.error, TypeError) as error:
            raise MgnError(f"{what}: {pattern!r:.80} is no regular expression: {error}") from None
        if not any(compiled.search(name) for name in names):
            listing = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
            has = f"there are {listing}" if names else "there are no parameters"
            raise MgnError(f"{what}: no parameter matches {pattern!r:.80}; {has}")
