"""Makes batches ahead of their use, in a thread.

In: an iterator. Out: its items in their order; its error, where the item that failed would be.

    with prefetched(batches.epoch(0)) as ready:
        for batch in ready: ...
"""

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")

AHEAD = 2
"""Items that are ready beside the one in use."""

_PATIENCE = 0.05
"""Seconds after which a thread that nobody takes from looks whether it is still wanted."""

_LAST_WAIT = 2.0
"""Seconds that the end waits for the thread."""


@dataclass(frozen=True)
class _Failure:
    """What the iterator raised."""

    error: BaseException


class _End:
    """After the last item."""


@contextmanager
def prefetched(items: Iterable[Item], ahead: int = AHEAD) -> Iterator[Iterator[Item]]:
    """Items that a thread takes from an iterator ahead of their use. The end of the `with` ends the
    thread, though items may be left; one that waits for its iterator ends when that answers.
    """
    ready: queue.Queue[Any] = queue.Queue(ahead)
    is_over = threading.Event()
    thread = threading.Thread(
        target=_fill, args=(items, ready, is_over), name="mgn-batches", daemon=True
    )
    thread.start()
    try:
        yield _taken(ready)
    finally:
        is_over.set()
        thread.join(_LAST_WAIT)


def _fill(items: Iterable[object], ready: "queue.Queue[Any]", is_over: threading.Event) -> None:
    """Puts all items, and what comes after them, until that is not wanted any more."""
    try:
        for item in items:
            if not _put(ready, item, is_over):
                return
        last: _Failure | _End = _End()
    except BaseException as error:
        last = _Failure(error)
    _put(ready, last, is_over)


def _put(ready: "queue.Queue[Any]", item: object, is_over: threading.Event) -> bool:
    """Whether an item was put before the end."""
    while not is_over.is_set():
        try:
            ready.put(item, timeout=_PATIENCE)
        except queue.Full:
            continue
        return True
    return False


def _taken(ready: "queue.Queue[Any]") -> Iterator[Any]:
    """The items as they come."""
    while True:
        item = ready.get()
        if isinstance(item, _End):
            return
        if isinstance(item, _Failure):
            raise item.error
        yield item
