"""Runs that are watched while the device is at them: results leave as soon as they are there.

In: a planned graph, and the numbers of steps behind which something is to be told. Out:
`in_pieces`, which begins a run. Who is told enqueues what is to be done there: a copy of a result
from its place, or a mark. What copies to an input's place does so before the run.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from mgn.runtime.host_arrays import check_inputs
from mgn.runtime.launching.command_buffers import CommandBuffer, record
from mgn.runtime.launching.executable import Executable
from mgn.runtime.launching.launches import Copy, Launch
from mgn.runtime.launching.results import NewResults

Piece = tuple[int, Sequence[Launch | Copy], CommandBuffer | None]
"""A place at which steps are cut, the steps before it, and those as they were recorded."""


class Pieces:
    """Steps that are cut at some places. As those of a whole run, the second run records them."""

    def __init__(self, steps: Sequence[Launch | Copy], ends: Sequence[int]) -> None:
        self._bounds = sorted({0, *ends, len(steps)})
        self._steps = steps
        self._recorded: list[CommandBuffer | None] = [None] * len(self._bounds)
        self._runs = 0

    def next(self, device: Any, queue: Any) -> Iterator[Piece]:
        """For each place at which steps are cut, the steps up to it, as they were recorded if they
        were; of the first place, which is before all steps, none.
        """
        self._runs += 1
        pieces = [self._steps[:0]]
        pieces += [self._steps[first:last] for first, last in pairwise(self._bounds)]
        if self._runs == 2:
            self._recorded = [record(device, queue, piece) for piece in pieces]
        yield from zip(self._bounds, pieces, self._recorded, strict=True)


class WatchedExecutable(Executable):
    """A planned graph on a device, of which runs may be watched."""

    _pieces: dict[tuple[int, ...], Pieces] | None = None

    @contextmanager
    def in_pieces(
        self,
        inputs: Mapping[str, Any],
        ends: Sequence[int] = (),
        behind: Callable[[int], object] | None = None,
        placed: Collection[str] = (),
        left: Collection[str] = (),
    ) -> Iterator[dict[str, np.ndarray]]:
        """Run the graph; `behind` is called with each of the `ends`, once so many steps are begun
        and no more. Inside of the `with`, all are begun but those that write states last; behind
        it, the arrays have the results, but those that are `left` in their `place`. Inputs that are
        `placed` are in theirs already.
        """
        given = [buffer for _, buffer in self._inputs if buffer.name not in placed]
        checked = iter(check_inputs(given, inputs, self.session.given))
        self._check_parameters()
        nothing = np.empty(0)
        arrays = [nothing if b.name in placed else next(checked) for _, b in self._inputs]
        direct = {number for number, buffer in self._inputs if buffer.name in placed}
        wanted = [output for output in self._outputs if output.name not in left]
        outputs = NewResults(wanted, self.device.kind)()
        with self._running():
            uploads = self._begin(arrays, direct)
            with self._writing_states():
                self._enqueue_pieces(ends, behind)
                yield outputs
                self._collect(outputs)
                del uploads
                self._memory.check()
                self._look_at_checks()
                self._commit()
                self._queue.finish()

    def place(self, name: str, is_input: bool = False) -> Any:
        """The buffer of a result, or of an input."""
        return self._memory.buffers[self._numbers[name, is_input]]

    @cached_property
    def _numbers(self) -> dict[tuple[str, bool], int]:
        """The number of the buffer of each result, and of each input."""
        results = {(output.name, False): output.buffer for output in self._outputs}
        return results | {(buffer.name, True): number for number, buffer in self._inputs}

    def _enqueue_pieces(self, ends: Sequence[int], behind: Callable[[int], object] | None) -> None:
        """Begins all steps but the commits, and tells behind how many."""
        middle = len(self._phases[0])
        key = (*ends, middle)
        self._pieces = {} if self._pieces is None else self._pieces
        if key not in self._pieces:
            self._pieces[key] = Pieces([*self._phases[0], *self._phases[1]], key)
        for end, steps, recorded in self._pieces[key].next(self.device.handle, self._queue):
            self._enqueue(steps, recorded)
            if behind is not None and end in ends:
                behind(end)
            if end == middle and self._phases[1]:
                self._look_at_checks()
        self._queue.flush()
