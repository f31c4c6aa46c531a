"""E-graphs of egglog in which sorts, operations and rules are declared, kept to be used again.

In: texts of egglog that declare. Out: an e-graph that has read them, and holds nothing yet.

To declare a rule takes egglog ten times as long as to copy one, and programs of like operations
declare the same. A user gets a copy; what was copied is as it was, whatever the user did. A thread
has its own: egglog panics where an e-graph is used or dropped by another than the one that made it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local
from typing import Any

MOST_KEPT = 16
"""How many e-graphs a thread keeps: those that it used last."""


class _Kept(local):
    """The e-graphs of a thread, which go with it."""

    def __init__(self) -> None:
        self.egraphs: dict[tuple[str, ...], Any] = {}


_kept = _Kept()


def execute(egraph: Any, text: str) -> list[Any]:
    """Has an e-graph read a text. Out: what each command of it reports."""
    return egraph.run_program(*egraph.parse_program(text))


@contextmanager
def declared(bindings: Any, texts: Sequence[str]) -> Iterator[Any]:
    """An e-graph that has read these texts, each by itself: egglog reads one in time and memory
    that grow with its square. It is kept, but for one whose user failed.
    """
    key = tuple(texts)
    kept = _kept.egraphs
    egraph = kept.pop(key, None)
    if egraph is None:
        egraph = bindings.EGraph()
        for text in texts:
            execute(egraph, text)
    execute(egraph, "(push 1)")
    yield egraph
    execute(egraph, "(pop 1)")
    kept[key] = egraph
    while len(kept) > MOST_KEPT:
        del kept[next(iter(kept))]
