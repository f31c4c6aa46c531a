"""Small inputs and results of a CPU, which the host copies by itself.

In: a plan, and its memory, whose buffers lie in arrays of the host. Out: `SmallArrays`, which
fills inputs and reads results. A command of OpenCL that copies takes longer than to copy thousands
of bytes, and a call may have a hundred arrays. So the buffers are mapped, all at once, and the host
copies what is small.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from mgn.codegen.launch_plan import BufferKind, BufferPlan, LaunchPlan, OutputPlan
from mgn.runtime.host_arrays import DTYPES
from mgn.runtime.host_blocks import HostBlock
from mgn.runtime.launching.device_arrays import DeviceArray
from mgn.runtime.memory import DeviceMemory, is_small

Given = tuple[int, np.ndarray | DeviceArray]


class SmallArrays:
    """The small inputs of a plan by the numbers of their buffers, and its small results by name."""

    def __init__(self, plan: LaunchPlan, memory: DeviceMemory, queue: Any) -> None:
        self._queue, self._inputs, self._arena = queue, memory.inputs, memory.arena
        self._places: dict[int, np.ndarray] = {}
        self._results: dict[str, tuple[HostBlock, np.ndarray]] = {}
        if memory.inputs is not None:
            for number, offset in memory.input_places.items():
                place = _seen(memory.inputs, offset, plan.buffers[number])
                self._places[number] = place
        for output in plan.outputs:
            buffer = plan.buffers[output.buffer]
            block, offset = memory.arena, buffer.offset
            if output.buffer in memory.input_places:
                block, offset = memory.inputs, memory.input_places[output.buffer]
            elif buffer.kind is not BufferKind.VIEW or not is_small(buffer):
                continue
            if block is not None:
                self._results[output.name] = block, _seen(block, offset, output)

    def fill(self, given: Sequence[Given]) -> list[Given]:
        """Copies what is small among arrays for inputs to its places; those that are left."""
        places = self._places
        if not places:
            return list(given)
        mine: list[tuple[int, np.ndarray]] = []
        rest: list[Given] = []
        for number, array in given:
            if number in places and isinstance(array, np.ndarray):
                mine.append((number, array))
            else:
                rest.append((number, array))
        if mine:
            assert self._inputs is not None
            with self._inputs.mapped(self._queue):
                for number, array in mine:
                    places[number][...] = array
        return rest

    def has(self, name: str) -> bool:
        """Whether a result is one of these."""
        return name in self._results

    def read(self, wanted: Mapping[str, np.ndarray]) -> None:
        """Copies results to arrays, after all that the queue was told."""
        for block in (self._arena, self._inputs):
            found = [(n, array) for n, array in wanted.items() if self._results[n][0] is block]
            if found and block is not None:
                with block.mapped(self._queue):
                    for name, array in found:
                        array[...] = self._results[name][1]


def _seen(block: HostBlock, offset: int, type: BufferPlan | OutputPlan) -> np.ndarray:
    """The elements of an array that lies in a block."""
    dtype = DTYPES[type.element]
    part = block.bytes[offset : offset + prod(type.shape) * dtype.itemsize]
    return part.view(dtype).reshape(type.shape)
