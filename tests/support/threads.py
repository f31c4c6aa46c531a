"""Bodies of tests that run at the same time."""

import threading
from collections.abc import Callable, Sequence


def run_together(bodies: Sequence[Callable[[], object]]) -> None:
    """Runs each in a thread of its own, until all have ended."""
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
