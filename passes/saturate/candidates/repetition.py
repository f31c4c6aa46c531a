"""Tables of what was worked out for regions that repeat, or none, where each is worked out anew.

In: whether what repeats is worked out once. Out: a table, looked up by all that its values depend
on.
"""

from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Forgetful(dict[K, V]):
    """A table that keeps nothing: what would be found in it is worked out every time."""

    def __setitem__(self, key: K, value: V) -> None:
        pass

    def get(self, key: K, default: Any = None) -> Any:
        """What is not there, without a look."""
        return default


def table(keeps: bool) -> dict[Any, Any]:
    """An empty table, which keeps what is entered or does not."""
    return {} if keeps else Forgetful()
