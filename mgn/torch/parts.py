"""A part of a graph as kernels, called with tensors.

In: the nodes of a part, and what it needs. Out: `Part`, which takes tensors and gives new ones.
Tensors on the CPU are handed to mgn in their own memory, and results come in memory of their own.
"""

from collections.abc import Sequence
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
        self._frozen = [item.name for item in self.needed if item in set(frozen)]
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
        for node, tensor in zip(self.needed, tensors, strict=True):
            if node.name in self._frozen:
                self._freeze(node.name, tensor)
            else:
                inputs[node.name] = array_of_tensor(tensor)
        found = self.executable.run(inputs)
        return [_laid_out(found[node.name], node.meta["val"]) for node in self.given]

    def _freeze(self, name: str, tensor: Any) -> None:
        if tensor.is_inference():  # whose changes PyTorch does not count
            self.executable.params[name] = array_of_tensor(tensor)
            return
        seen = self._seen.get(name)
        if seen is None or seen[1:] != (tensor.data_ptr(), tensor._version):
            self.executable.params[name] = array_of_tensor(tensor)
            # The storage is held, so that no other tensor comes to lie in its place.
            self._seen[name] = (tensor.untyped_storage(), tensor.data_ptr(), tensor._version)


def _laid_out(array: np.ndarray, like: Any) -> Any:
    """An array as a tensor that lies in memory as PyTorch expects."""
    tensor = tensor_of_array(array)
    strides = tuple(int(step) for step in like.stride())
    if tensor.stride() == strides or tensor.numel() < 2:
        return tensor
    once = tensor
    for axis, step in enumerate(strides):
        if step == 0:
            once = once.narrow(axis, 0, 1)
    laid = library().empty_strided(tuple(once.shape), strides, dtype=tensor.dtype)
    return laid.copy_(once).expand(tensor.shape)
