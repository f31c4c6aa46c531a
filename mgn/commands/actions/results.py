"""What `mgn-run` prints of results, and where it may write them; nothing of the compiler.

In: arrays, an executable, the arguments. Out: lines.
"""

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import numpy as np

from mgn.commands.options.errors import UsageError
from mgn.diagnostics import printable
from mgn.driver.quantities import seconds_text
from mgn.modules.files import check_apart, check_target
from mgn.runtime.host_arrays import DTYPES, spelling

_ELEMENTS = {dtype: name for name, dtype in DTYPES.items()}


class Runnable(Protocol):
    """What a graph is run by: compiled here, or packaged."""

    def run(self, inputs: Any) -> Any:
        """A run with copies."""
        ...

    def replay(self) -> Any:
        """The launches alone."""
        ...


def check_targets(arguments: argparse.Namespace, files: Iterable[Path] = ()) -> None:
    """What is written can be, and takes the place of nothing that is read or written beside it."""
    if arguments.outputs and not arguments.outputs.endswith(".npz"):
        raise UsageError(
            f"--outputs takes a file name that ends in .npz, not '{arguments.outputs}'"
        )
    given = (arguments.file, arguments.inputs, arguments.params, arguments.states)
    taken = [*files, *(Path(file) for file in given if file not in (None, "-"))]
    for path in (arguments.outputs, arguments.trace, arguments.explain, arguments.report_json):
        if path is None or path == "-":
            continue
        check_target(path)
        check_apart(path, taken)
        taken.append(Path(path))


def output_line(name: str, array: np.ndarray) -> str:
    """A result in a line: name, type, mean, least and largest element."""
    name, type = printable(name, kept=""), spelling(_ELEMENTS[array.dtype], array.shape)
    if array.size == 0:
        return f"{name}: {type} (empty)"
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        mean = wide.mean()
    return f"{name}: {type} mean {mean:.6g} min {wide.min():.6g} max {wide.max():.6g}"


def timing_line(exe: Runnable, inputs: dict[str, np.ndarray], repeat: int) -> str:
    """The median of whole runs, and of the launches alone."""
    whole: list[float] = []
    launches: list[float] = []
    for _ in range(repeat):
        start = time.perf_counter()
        exe.run(inputs)
        middle = time.perf_counter()
        exe.replay()
        whole.append(middle - start)
        launches.append(time.perf_counter() - middle)
    return (
        f"median of {repeat} runs: {seconds_text(median(launches))} on the device, "
        f"{seconds_text(median(whole))} with copies"
    )
