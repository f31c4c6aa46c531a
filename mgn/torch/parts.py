"""A part of a graph as kernels, called with tensors.

In: the nodes of a part, and what it needs. Out: `Part`, which takes tensors and gives new ones.
Tensors on the CPU are handed to mgn in their own memory, and results come in memory of their own.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from mgn.api import compile as compile_module
from mgn.frontend.torch.arrays import array_of_tensor, tensor_of_array
from mgn.frontend.torch.graph import Source, import_graph
from mgn.frontend.torch.library import library
from mgn.modules.module import Module
from mgn.torch.cutting import Step
from mgn.torch.options import Options


class Part:
    """Kernels for a part of a graph. `frozen` are those of its inputs that are parameters, kept on
    the device: they are set again where PyTorch says that they were changed.
    """

    def __init__(self, name: str, step: Step, frozen: Sequence[Any], options: Options) -> None:
        self.needed, self.given = step.needed, step.given
        self._results = [(item.name, _strides_of(item.meta["val"])) for item in self.given]
        self._names = [item.name for item in self.needed]
        self._frozen = {item.name for item in self.needed if item in set(frozen)}
        self._seen: dict[str, tuple[Any, int, int]] = {}
        sources = {
            item.name: Source(parameter=item.name)
            if item.name in self._frozen
            else Source(input=item.name)
            for item in self.needed
        }
        nodes = [*self.needed, *step.part]
        module = import_graph(name, nodes, sources, [(item.name, item) for item in self.given])
        self.executable = compile_module(
            Module(module), device=options.device, precision=options.precision
        )

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """The results for tensors, in the order of `given`."""
        inputs: dict[str, np.ndarray] = {}
        for name, tensor in zip(self._names, tensors, strict=True):
            if name in self._frozen:
                self._freeze(name, tensor)
            else:
                inputs[name] = array_of_tensor(tensor)
        found = self.executable.run(inputs)
        return [
            tensor_of_array(found[name]) if strides is None else _laid_out(found[name], strides)
            for name, strides in self._results
        ]

    def _freeze(self, name: str, tensor: Any) -> None:
        if tensor.is_inference():  # whose changes PyTorch does not count
            self.executable.params[name] = array_of_tensor(tensor)
            return
        seen = self._seen.get(name)
        if seen is None or seen[1:] != (tensor.data_ptr(), tensor._version):
            self.executable.params[name] = array_of_tensor(tensor)
            # The storage is held, so that no other tensor comes to lie in its place.
            self._seen[name] = (tensor.untyped_storage(), tensor.data_ptr(), tensor._version)


def _strides_of(like: Any) -> tuple[int, ...] | None:
    """How a tensor lies in memory that PyTorch expects; None where it lies as an array does."""
    strides = tuple(int(step) for step in like.stride())
    sizes = [int(size) for size in like.shape]
    plain = tuple(prod(max(size, 1) for size in sizes[axis + 1 :]) for axis in range(len(sizes)))
    return None if strides == plain or like.numel() < 2 else strides


def _laid_out(array: np.ndarray, strides: Sequence[int]) -> Any:
    """An array as a tensor that lies in memory as PyTorch expects."""
    tensor = tensor_of_array(array)
    once = tensor
    for axis, step in enumerate(strides):
        if step == 0:
            once = once.narrow(axis, 0, 1)
    laid = library().empty_strided(tuple(once.shape), strides, dtype=tensor.dtype)
    return laid.copy_(once).expand(tensor.shape)
