"""A part of a graph as kernels, called with tensors.

In: the nodes of a part, and what it needs. Out: `Part`, which takes tensors and gives new ones.
Tensors on the CPU are handed to mgn in their own memory, and results come in memory of their own.
Where the axes of a tensor lie in another order, as those of a transpose do that a backward pass
needs, the kernels read and write that order: nothing is copied.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mgn.frontend.torch.arrays import array_of_tensor, tensor_of_array
from mgn.frontend.torch.graph import Source, import_graph
from mgn.frontend.torch.library import library
from mgn.modules.module import Module
from mgn.torch.cutting import Step
from mgn.torch.families import Family
from mgn.torch.lying import dense_order, numbers, plain_strides
from mgn.torch.options import Options


class Part:
    """Kernels for a part of a graph. `frozen` are those of its inputs that are parameters, kept on
    the device: they are set again where PyTorch says that they were changed.
    """

    def __init__(
        self, name: str, step: Step, frozen: Sequence[Any], options: Options, family: Family
    ) -> None:
        self.needed, self.given = step.needed, step.given
        self._results = [(item.name, _Lie.of(item.meta["val"])) for item in self.given]
        orders = {name: lie.order for name, lie in self._results if lie and lie.order}
        self._names = [item.name for item in self.needed]
        self._dtypes = {item.name: item.meta["val"].dtype for item in self.needed}
        self._frozen = {item.name for item in self.needed if item in set(frozen)}
        self._seen: dict[str, tuple[Any, int, int]] = {}
        sources = {
            item.name: Source(parameter=item.name)
            if item.name in self._frozen
            else Source(input=item.name, order=dense_order(item.meta["val"]))
            for item in self.needed
        }
        self._orders = {name: source.order for name, source in sources.items()}
        nodes = [*self.needed, *step.part]
        results = [(item.name, item) for item in self.given]
        module = import_graph(name, nodes, sources, results, orders)
        self.executable = family.compiled(name, Module(module), options)

    def __call__(self, tensors: Sequence[Any]) -> list[Any]:
        """The results for tensors, in the order of `given`."""
        inputs: dict[str, np.ndarray] = {}
        for name, tensor in zip(self._names, tensors, strict=True):
            if name in self._frozen:
                self._freeze(name, tensor)
            else:
                lying = self._as_planned(name, tensor)
                order = self._orders[name]
                inputs[name] = array_of_tensor(lying if order is None else lying.permute(order))
        found = self.executable.run(inputs)
        return [
            tensor_of_array(found[name]) if lie is None else lie.tensor(found[name])
            for name, lie in self._results
        ]

    def _as_planned(self, name: str, tensor: Any) -> Any:
        """A tensor as the trace has it, where PyTorch gives another type: the statistics of norms
        of values in bf16 with weights in f32.
        """
        dtype = self._dtypes[name]
        return tensor if tensor.dtype == dtype else tensor.to(dtype)

    def _freeze(self, name: str, tensor: Any) -> None:
        if tensor.is_inference():  # whose changes PyTorch does not count
            self.executable.params[name] = array_of_tensor(tensor)
            return
        seen = self._seen.get(name)
        if seen is None or seen[1:] != (tensor.data_ptr(), tensor._version):
            self.executable.params[name] = array_of_tensor(tensor)
            # The storage is held, so that no other tensor comes to lie in its place.
            self._seen[name] = (tensor.untyped_storage(), tensor.data_ptr(), tensor._version)


class _Lie(NamedTuple):
    """How a tensor lies in memory that PyTorch expects; and in which order its axes do, where they
    do so without a gap.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    order: tuple[int, ...] | None

    @staticmethod
    def of(like: Any) -> "_Lie | None":
        """That of a tensor; None where it lies as an array does. Arrays of no elements have strides
        of their own.
        """
        sizes, strides = numbers(like)
        if like.numel() == 1 or (strides == plain_strides(sizes) and like.numel()):
            return None
        return _Lie(sizes, strides, dense_order(like))

    def tensor(self, array: np.ndarray) -> Any:
        """An array as a tensor that lies so, and is no view of another: in its own memory where it
        has the order, else copied.
        """
        tensor = tensor_of_array(array)
        if not array.size:
            return library().empty_strided(self.sizes, self.strides, dtype=tensor.dtype)
        if self.order is not None:
            whole = library().empty(0, dtype=tensor.dtype)
            return whole.set_(tensor.untyped_storage(), 0, self.sizes, self.strides)
        once = tensor
        for axis, step in enumerate(self.strides):
            if step == 0:
                once = once.narrow(axis, 0, 1)
        laid = library().empty_strided(tuple(once.shape), self.strides, dtype=tensor.dtype)
        return laid.copy_(once).expand(tensor.shape)
