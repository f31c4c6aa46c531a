"""Arrays on the host for what a run gives.

In: the results of a plan. Out: an array for each, whose content the run writes.
"""

from collections.abc import Iterable
from math import prod

import numpy as np

from mgn.codegen.launch_plan import OutputPlan
from mgn.runtime.host_arrays import DTYPES
from mgn.runtime.large_pages import PAGE, has_large_pages, large_pages


def new_results(wanted: Iterable[OutputPlan], kind: str) -> dict[str, np.ndarray]:
    """Arrays for results by name; for a device that is a CPU, large ones lie in large pages."""
    large = kind == "cpu" and has_large_pages()
    results: dict[str, np.ndarray] = {}
    for output in wanted:
        dtype = DTYPES[output.element]
        size = prod(output.shape) * dtype.itemsize
        if large and size >= PAGE:
            results[output.name] = large_pages(size).view(dtype).reshape(output.shape)
        else:
            results[output.name] = np.empty(output.shape, dtype)
    return results
