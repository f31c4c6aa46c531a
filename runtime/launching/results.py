"""Arrays on the host for what a run gives.

In: the results of a plan. Out: an array for each, whose content the run writes.
"""

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import OutputPlan
from mgn.runtime.host_arrays import DTYPES
from mgn.runtime.large_pages import PAGE, has_large_pages, large_pages


class NewResults:
    """Arrays for results by name, new in each call; for a device that is a CPU, large ones lie in
    large pages.
    """

    def __init__(self, wanted: Iterable[OutputPlan], kind: str) -> None:
        large = kind == "cpu" and has_large_pages()
        self._wanted: list[tuple[str, tuple[int, ...], np.dtype[Any], int]] = []
        for output in wanted:
            dtype = DTYPES[output.element]
            size = prod(output.shape) * dtype.itemsize
            in_pages = size if large and size >= PAGE else 0
            self._wanted.append((output.name, output.shape, dtype, in_pages))

    def __call__(self) -> dict[str, np.ndarray]:
        """The arrays."""
        return {
            name: large_pages(size).view(dtype).reshape(shape) if size else np.empty(shape, dtype)
            for name, shape, dtype, size in self._wanted
        }
