"""A rank's share of a batch, and what the results of shares are together.

In: a program whose batch is a dimension parameter, and a crew. Out: a `Division`, which says how
many rows a rank has and where they begin; batches of these rows; results of the whole batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mgn.diagnostics import MgnError
from mgn.dialects.mgn.build import RANDOM_STATE
from mgn.dialects.mgn.states import states_of
from mgn.dialects.mgn.structure import parameters_of
from mgn.dialects.types import spelling
from mgn.distributed.crew import Crew
from mgn.modules.module import Module
from mgn.runtime.errors import InputError
from mgn.runtime.host_arrays import as_array, shown
from mgn.training.data.batches import (
    ArrayBatches,
    Batch,
    Batches,
    InputTypes,
    input_types,
    order_of,
)


@dataclass(frozen=True)
class Division:
    """How a batch is shared out. `inputs` are those of a whole batch, `divided` the names of those
    that have an axis of examples, `dims` the sizes of a rank's graph.
    """

    batch: int
    start: int
    stop: int
    dims: Mapping[str, int]
    inputs: InputTypes
    divided: frozenset[str]

    @property
    def rows(self) -> int:
        """How many examples a rank has."""
        return self.stop - self.start

    @property
    def weight(self) -> float:
        """A rank's part of a batch."""
        return self.rows / self.batch

    def weights(self, size: int) -> list[float]:
        """The parts of all ranks."""
        ends = [rows_of(self.batch, size, rank) for rank in range(size)]
        return [(stop - start) / self.batch for start, stop in ends]

    def share_of(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """A rank's rows of a batch; a batch that has its rows alone is left as it is."""
        arrays = {name: as_array(array) for name, array in batch.items()}
        lengths = {len(arrays[name]) for name in self.divided if name in arrays}
        if lengths == {self.rows} != {self.batch}:
            return arrays
        if lengths != {self.batch}:
            return arrays  # the graph's own check says what is wrong with it
        return {
            name: array[self.start : self.stop] if name in self.divided else array
            for name, array in arrays.items()
        }


def rows_of(batch: int, size: int, rank: int) -> tuple[int, int]:
    """Where the rows of a rank begin and end: no rank has more than one row more than another."""
    return rank * batch // size, (rank + 1) * batch // size


def divide(module: Module, graph: str, dims: Mapping[str, int], crew: Crew) -> Division:
    """How the batches of a graph are shared out. MgnError where they cannot be."""
    leading = next((item.leading for item in module.signatures if item.name == graph), None)
    whole = module.lower(graph, dims)
    inputs = input_types(whole)
    sizes = {shape[0] for _, shape in inputs.values() if shape}
    if leading is None or len(sizes) != 1:
        raise MgnError(
            f"graph '{graph}': its inputs have no dimension parameter as their first size, of "
            f"which each of {crew.size} ranks could take a share; write one, such as "
            f"graph {graph}[B = 64](x: f32[B, 8])"
        )
    batch = sizes.pop()
    if batch < crew.size:
        raise MgnError(f"a batch of {batch} has no row for each of {crew.size} ranks")
    start, stop = rows_of(batch, crew.size, crew.rank)
    own = {**dims, leading: stop - start}
    part = module.lower(graph, own)
    _check_equal(graph, whole, part, leading)
    shapes = {name: shape for name, (_, shape) in input_types(part).items()}
    divided = frozenset(name for name, shape in shapes.items() if shape)
    for name in divided:
        if shapes[name][1:] != inputs[name][1][1:]:
            raise MgnError(
                f"graph '{graph}': input {shown(name)} has the batch '{leading}' in another axis "
                "than its first, and cannot be shared out"
            )
    return Division(batch, start, stop, own, inputs, divided)


def _check_equal(graph: str, whole: ModuleOp, part: ModuleOp, leading: str) -> None:
    """MgnError where a parameter or a state is of another type for a part of a batch."""
    for what, find in (("parameter", parameters_of), ("state", states_of)):
        held = find(part)
        for name, op in find(whole).items():
            if name != RANDOM_STATE and name in held and held[name].type != op.type:
                raise MgnError(
                    f"graph '{graph}': {what} {shown(name)} is {spelling(op.type)}, which depends "
                    f"on the batch '{leading}': several ranks cannot share it out"
                )


class SharedBatches:
    """A rank's rows of the batches that something gives."""

    def __init__(self, batches: Batches, division: Division) -> None:
        self.batches, self.division = batches, division
        self.per_epoch = batches.per_epoch
        self.identity = batches.identity

    def epoch(self, number: int, start: int = 0) -> Iterator[Batch]:
        """The batches of an epoch from one of them on."""
        held, division = self.batches, self.division
        if not isinstance(held, ArrayBatches):
            for batch in held.epoch(number, start):
                yield division.share_of(batch)
            return
        order = order_of(held.seed, number, held.examples)
        for index in range(start, held.examples // held.size):
            first = index * held.size
            yield held.rows(order[first + division.start : first + division.stop])

    def remark(self, accumulate: int = 1) -> str | None:
        """What is to be said once about what was left out."""
        return self.batches.remark(accumulate)

    def evaluation(self) -> Iterator[tuple[Batch, int | None]]:
        """All examples in their order; with a batch that was filled up, how many of the rank's rows
        count.
        """
        start, rows = self.division.start, self.division.rows
        for batch, count in self.batches.evaluation():
            own = None if count is None else min(max(count - start, 0), rows)
            yield self.division.share_of(batch), own


def shared_by(division: Division | None, batches: Batches) -> Batches:
    """The batches as a rank takes them; as they are, where they are not shared out."""
    return batches if division is None else SharedBatches(batches, division)


def combined(
    results: Sequence[Mapping[str, np.ndarray]], weights: Sequence[float]
) -> dict[str, np.ndarray]:
    """The scalars of a whole batch from those of its shares: means of floats, by the shares' sizes,
    and sums of integers.
    """
    found: dict[str, np.ndarray] = {}
    for name, first in results[0].items():
        values = [item[name] for item in results]
        if first.dtype.kind in "iub":
            found[name] = np.asarray(sum(int(value) for value in values)).astype(first.dtype)
            continue
        mean = sum(float(value) * weight for value, weight in zip(values, weights, strict=True))
        found[name] = np.asarray(mean).astype(first.dtype)
    return found


def check_batch(batch: Mapping[str, Any], division: Division) -> None:
    """InputError where the arrays of a batch are neither a whole batch nor a rank's share."""
    for name in division.divided & batch.keys():
        length = len(as_array(batch[name])) if np.ndim(batch[name]) else 0
        if length not in (division.batch, division.rows):
            raise InputError(
                f"input {shown(name)} has {length} rows; a batch has {division.batch}, and this "
                f"rank's share of it {division.rows}"
            )
