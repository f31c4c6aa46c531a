"""Batches for a training run: from files, from arrays, or from any iterable.

In: a source, and the inputs of a graph with their types. Out: `Batches`. An epoch's batches follow
from the seed and the epoch's number alone, so that a run goes on anywhere by its position.

    batches = open_batches("train.npz", {"x": ("f32", (64, 8)), "labels": ("i32", (64,))}, seed=0)
    for batch in batches.epoch(number=3, start=17):
        ...
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType

from mgn.diagnostics import argument_name, one_line
from mgn.dialects.mgn.structure import graphs_of
from mgn.dialects.types import element_of
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import (
    DTYPES,
    as_array,
    fitting,
    mismatch,
    nearest,
    shown,
    spelling,
)
from mgn.runtime.weights import load_arrays

Batch = dict[str, np.ndarray]
InputTypes = Mapping[str, tuple[str, tuple[int, ...]]]
"""The inputs of a graph: element and shape by name."""

MOST_SEEDS = 1 << 64


class Batches(Protocol):
    """Where batches come from."""

    per_epoch: int | None
    """Batches of an epoch; None where that is not known before."""
    identity: dict[str, int]
    """What a run must find again to go on: a checkpoint keeps it."""

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from one of them on."""
        ...

    def remark(self, accumulate: int = 1) -> str | None:
        """What is to be said once about what was left out: it makes no whole batch, or no whole
        step of so many batches.
        """
        ...

    def evaluation(self) -> Iterator[tuple[Batch, int | None]]:
        """All examples in their order, as batches; with one that was filled up, how many of its
        rows count.
        """
        ...


def input_types(module: ModuleOp) -> InputTypes:
    """The inputs of a module's one graph."""
    (graph,) = graphs_of(module)
    types = {name: argument.type for name, argument in graph.named_inputs}
    return {
        name: (element_of(type).name, type.get_shape())
        for name, type in types.items()
        if isinstance(type, TensorType)
    }


def open_batches(source: Any, inputs: InputTypes, seed: int = 0, name: str = "the data") -> Batches:
    """Batches from a .npz or .safetensors file, from a mapping of arrays that hold all examples, or
    from an iterable of batches, each a mapping; `Batches` as they are. InputError with all that
    does not fit the inputs.
    """
    if isinstance(source, ArrayBatches | IterableBatches):
        return source
    if isinstance(source, str | Path):
        return ArrayBatches(load_arrays(source), inputs, seed, str(source))
    if isinstance(source, Mapping):
        return ArrayBatches(source, inputs, seed, name)
    if isinstance(source, Iterable):
        return IterableBatches(source, inputs, name)
    raise InputError(
        f"{name} is {type(source).__name__}; batches come from the path of a .npz or .safetensors "
        "file, from arrays by name, or from an iterable of batches"
    )


def whole_steps(batches: Iterable[Batch], count: int, done: int) -> Iterator[Batch]:
    """Batches, without those at the end that make no whole step of so many; of the first step,
    some were done before.
    """
    group: list[Batch] = []
    for batch in batches:
        group.append(batch)
        if len(group) + done == count:
            yield from group
            group, done = [], 0


def order_of(seed: int, epoch: int, count: int) -> np.ndarray:
    """The order of `count` examples in an epoch, by a counter-based generator (Philox)."""
    key = np.array([seed % MOST_SEEDS, epoch], np.uint64)
    return np.random.Generator(np.random.Philox(key=key)).permutation(count)


class ArrayBatches:
    """Examples along the first axis of each array, in another order in each epoch.

    An input that is a scalar takes one, which is that of every batch. What is left at the end of an
    epoch and makes no whole batch is left out; in another epoch it is among others.
    """

    def __init__(
        self, arrays: Mapping[str, Any], inputs: InputTypes, seed: int = 0, name: str = "the data"
    ) -> None:
        self.name = name
        self.seed = seed
        self.inputs = dict(inputs)
        self.arrays = self._checked(arrays)
        self.size = _batch_size(inputs, name)
        self.examples = self._count()
        self.per_epoch: int | None = self.examples // self.size
        self.identity = {"examples": self.examples, "batch": self.size}

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from one of them on."""
        order = order_of(self.seed, number, self.examples)
        for index in range(start, self.examples // self.size):
            yield self.rows(order[index * self.size : (index + 1) * self.size])

    def remark(self, accumulate: int = 1) -> str | None:
        """What is to be said once about examples that were left out."""
        left = self.examples % (self.size * accumulate)
        if not left:
            return None
        examples = f"{left} of {self.examples} examples" if left > 1 else "one example"
        whole = f"batch of {self.size}"
        if accumulate > 1:
            whole = f"step of {accumulate} batches of {self.size}"
        return f"{self.name}: {examples} of each epoch make no whole {whole}: left out"

    def need_a_batch(self, why: str | None = None, accumulate: int = 1) -> None:
        """InputError where there are fewer examples than a batch has, or a step of several."""
        if self.size <= self.examples < self.size * accumulate:
            raise InputError(
                f"{self.name}: {self.examples} examples, and a step has {self.size * accumulate}: "
                f"{accumulate} batches of {self.size}; a smaller {argument_name('accumulate')} "
                "takes less"
            )
        if self.examples < self.size:
            raise InputError(
                f"{self.name}: {self.examples} example{'s' * (self.examples != 1)}, and a batch "
                f"has {self.size}; compile the graph for batches of {max(self.examples, 1)} or less"
                f"{f' ({why})' if why else ''}"
            )

    def evaluation(self) -> Iterator[tuple[Batch, int | None]]:
        """All examples in their order. The last batch is filled up with the first examples."""
        for first in range(0, self.examples, self.size):
            rows = np.arange(first, first + self.size)
            left = self.examples - first
            yield self.rows(rows % self.examples), None if left >= self.size else left

    def rows(self, rows: np.ndarray) -> Batch:
        """Some examples as a batch."""
        return {
            name: array[rows] if self.inputs[name][1] else array
            for name, array in self.arrays.items()
        }

    def _checked(self, arrays: Mapping[str, Any]) -> Batch:
        """The arrays of the inputs. InputError with every fault at once."""
        faults: list[str] = []
        checked: Batch = {}
        for name, (element, shape) in self.inputs.items():
            if name not in arrays:
                hint = nearest(name, [str(item) for item in arrays if item not in self.inputs])
                faults.append(
                    f"there is no array {shown(name)}; it is {_wanted(element, shape)}{hint}"
                )
                continue
            try:
                array = as_array(arrays[name])
            except InputError as error:
                faults.append(f"{shown(name)} {error}")
                continue
            fault = _fault(array, element, shape)
            if fault is not None:
                faults.append(f"{shown(name)} {fault}")
            checked[name] = array
        if faults:
            raise InputError("\n".join(f"{self.name}: {fault}" for fault in faults))
        return checked

    def _count(self) -> int:
        """How many examples there are. InputError where the arrays do not agree, or are empty."""
        lengths = {name: len(array) for name, array in self.arrays.items() if self.inputs[name][1]}
        if len(set(lengths.values())) > 1:
            listing = ", ".join(f"{shown(name)} {length}" for name, length in lengths.items())
            raise InputError(f"{self.name}: arrays of different numbers of examples: {listing}")
        count = next(iter(lengths.values()))
        if not count:
            raise InputError(f"{self.name}: there are no examples")
        return count


class IterableBatches:
    """Batches that something else makes, in the order in which it makes them.

    A new epoch asks the iterable for its batches anew; to go on in the middle of one, the batches
    before are asked for and dropped. A last batch with fewer examples is left out.
    """

    def __init__(self, source: Iterable[Any], inputs: InputTypes, name: str = "the data") -> None:
        self.source = source
        self.inputs = dict(inputs)
        self.name = name
        self.per_epoch: int | None = None
        self.identity: dict[str, int] = {}
        self._is_spent = False
        self._left_out = self._whole = 0

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from one of them on. InputError where one does not fit."""
        whole = 0
        for index, (batch, count) in enumerate(self._all(f"epoch {number + 1}")):
            if count is None and index >= start:
                yield batch
            whole += count is None
            self._left_out = count or 0
        self._whole = whole

    def remark(self, accumulate: int = 1) -> str | None:
        """What is to be said once about batches that were left out."""
        left = self._whole % accumulate
        if self._left_out:
            return f"{self.name}: the last batch has only {self._left_out} examples: left out"
        if not left:
            return None
        batches = f"the last {left} of {self._whole} batches make" if left > 1 else "a batch makes"
        return f"{self.name}: {batches} no whole step of {accumulate}: left out"

    def evaluation(self) -> Iterator[tuple[Batch, int | None]]:
        """The batches; a part of one is filled up by its own rows."""
        for batch, count in self._all("another evaluation"):
            if count is not None:
                shapes = {name: shape for name, (_, shape) in self.inputs.items()}
                batch = {name: np.resize(array, shapes[name]) for name, array in batch.items()}
            yield batch, count

    def _all(self, purpose: str) -> Iterator[tuple[Batch, int | None]]:
        """All batches, and of one that is not whole, the number of its examples. InputError where
        another one follows it, or where an iterator has given its batches before.
        """
        iterator = iter(self.source)
        if iterator is self.source:
            if self._is_spent:
                raise InputError(
                    f"{self.name}: an iterator gives its batches once, and {purpose} needs them "
                    "again; a list gives them again, or an object whose __iter__ begins anew"
                )
            self._is_spent = True
        part: int | None = None
        for index, value in enumerate(iterator):
            if part is not None:
                raise InputError(f"{self.name}: batch {index - 1} has only {part} examples")
            batch, part = self._checked(value, index)
            yield batch, part

    def _checked(self, value: Any, index: int) -> tuple[Batch, int | None]:
        """A batch of the inputs' types; where it has fewer examples, how many."""
        if not isinstance(value, Mapping):
            kind = one_line(type(value).__name__)
            raise InputError(f"{self.name}: batch {index} is {kind}, not arrays by name")
        faults: list[str] = []
        batch: Batch = {}
        count = self._part(value)
        for name, (element, shape) in self.inputs.items():
            if name not in value:
                hint = nearest(name, [str(item) for item in value if item not in self.inputs])
                faults.append(f"{shown(name)} is missing; it is {spelling(element, shape)}{hint}")
                continue
            held = shape if count is None or not shape else (count, *shape[1:])
            try:
                batch[name] = fitting(value[name], element, held)
            except InputError as error:
                faults.append(f"{shown(name)} {error}")
        if faults:
            found = other_size(value, self.inputs)
            if found is not None and found[0] > found[1]:
                faults.append(f"cut it into batches of {found[1]}; the last one may have fewer")
            raise InputError("\n".join(f"{self.name}: batch {index}: {item}" for item in faults))
        return batch, count

    def _part(self, value: Mapping[str, Any]) -> int | None:
        """How many examples a batch has, where all its arrays have fewer than their inputs."""
        sizes = {shape[0] for _, shape in self.inputs.values() if shape}
        arrays = [
            as_array(value[name])
            for name, (_, shape) in self.inputs.items()
            if shape and name in value
        ]
        counts = {len(array) for array in arrays if array.ndim}
        if len(sizes) != 1 or len(counts) != 1 or not 0 < min(counts) < min(sizes):
            return None
        return counts.pop()


def other_size(batch: Mapping[str, Any], inputs: InputTypes) -> tuple[int, int] | None:
    """How many examples a batch has, and how many it is to have, where its arrays differ from
    their inputs in that alone; None where they do not.
    """
    if not isinstance(batch, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        return None
    axes = {name: shape for name, (_, shape) in inputs.items() if shape}
    shapes: dict[str, tuple[int, ...]] = {
        name: tuple(getattr(batch.get(name), "shape", ())) for name in axes
    }
    if any(not shapes[name] or shapes[name][1:] != axes[name][1:] for name in axes):
        return None
    counts, sizes = ({shape[0] for shape in found.values()} for found in (shapes, axes))
    if len(counts) != 1 or len(sizes) != 1 or counts == sizes:
        return None
    return counts.pop(), sizes.pop()


def _batch_size(inputs: InputTypes, name: str) -> int:
    """The number of examples in a batch. InputError where the inputs do not agree about it."""
    sizes = {item: shape[0] for item, (_, shape) in inputs.items() if shape}
    if not sizes:
        raise InputError(f"{name}: the graph has no input with an axis of examples")
    if len(set(sizes.values())) > 1 or not min(sizes.values()):
        listing = ", ".join(f"{shown(item)} {size}" for item, size in sizes.items())
        raise InputError(
            f"{name}: the first axes of the graph's inputs are no batch of examples: {listing}; "
            "an iterable of batches can give any shapes"
        )
    return next(iter(sizes.values()))


def _wanted(element: str, shape: tuple[int, ...]) -> str:
    """The type of an array that holds all examples of an input."""
    return f"{element}[{', '.join(['N', *map(str, shape[1:])])}]" if shape else f"{element}[]"


def _fault(array: np.ndarray, element: str, shape: tuple[int, ...]) -> str | None:
    """What is wrong with an array that should hold all examples of an input."""
    wanted = _wanted(element, shape)
    if array.dtype != DTYPES[element]:
        return mismatch(array, element, array.shape)
    if not shape and array.ndim:
        return f"has shape {list(array.shape)}, and is to be {wanted}, one for all batches"
    if array.ndim != len(shape) or array.shape[1:] != shape[1:]:
        return f"has shape {list(array.shape)}, and is to be {wanted}, with N examples"
    return None
