"""The steps of a trainer whose batches several ranks share out.

In: a program, an optimiser, and a crew. Out: `SharedSteps`: each rank computes the gradients of its
rows, all sum them, and each updates its parameters: all of them, or those it owns (ZeRO stage 1,
Rajbhandari et al. 2020), whose optimiser states no other rank has.
"""

import zlib
from collections.abc import Callable, Mapping
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from mgn.codegen.launch_plan import BufferKind
from mgn.diagnostics import MgnError
from mgn.dialects.mgn.build import RANDOM_STATE
from mgn.dialects.mgn.philox import STEPS as WEYL
from mgn.dialects.mgn.structure import ParamOp
from mgn.dialects.types import element_of
from mgn.distributed.carriers import Carrier, DeviceCarrier, HostCarrier
from mgn.distributed.layout import Layout, in_order, lay_out, share_out
from mgn.distributed.owners import Owners
from mgn.distributed.ranks import Ranks
from mgn.distributed.reduction import Reduction
from mgn.executable import Executable
from mgn.parameters import Parameters
from mgn.runtime.host_arrays import DTYPES, shown
from mgn.training.data.shards import Division, check_batch, combined
from mgn.training.optimisers.optimisers import Optimizer
from mgn.training.step.loss_scale import SKIPPED
from mgn.training.step.options import StepOptions
from mgn.training.step.split_step import DONE, SQUARES, split_step

MEBIBYTE = 1 << 20
HOST_KINDS = ("cpu",)
"""The kinds of devices whose memory is the host's."""

_WORD = 0xFFFFFFFF

StateType = tuple[str, tuple[int, ...]]


class SharedSteps:
    """Steps of which each rank does its share.

    `compiled` compiles a module with the parameters that it is given, for so many bytes of device
    memory, or any. `zero` is the stage: 0, or 1 where optimiser states are shared out. A bucket has
    so many MiB. Each of a step's graphs takes at most `memory` bytes, buckets aside.
    """

    def __init__(
        self,
        ranks: Ranks,
        division: Division,
        lowered: Callable[[], ModuleOp],
        step: tuple[str, Optimizer, StepOptions],
        trained: Mapping[str, ParamOp],
        params: Parameters,
        compiled: Callable[[ModuleOp, Parameters, int | None], Executable],
        zero: int = 0,
        bucket: float = 16.0,
        memory: int | None = None,
    ) -> None:
        self.ranks, self.division, self.params = ranks, division, params
        self.session = params.session
        bytes_of = {name: _bytes_of(op) for name, op in trained.items()}
        owner = share_out(bytes_of, ranks.size) if zero else None
        mine = None if owner is None else {n for n, rank in owner.items() if rank == ranks.rank}
        split = split_step(lowered(), *step, division.weight, mine)
        self._split = split
        self._outputs = {output: name for name, (output, _) in split.gradients.items()}
        with ranks.in_turn():
            self.backward = compiled(split.backward, params, memory)
            self.update = compiled(split.update, params, memory)
        most = max(int(bucket * MEBIBYTE), 1)
        self.owners = None
        if owner is not None:
            self.owners = Owners(ranks, owner, bytes_of, self.session, most)
        self._reductions, self._leaving = self._reducing(most, compiled)
        self._ends = sorted({end for found in self._leaving.values() for end in found})
        inputs = self.update.plan.of_kind(BufferKind.INPUT)
        self._wanted = {item.name for _, item in inputs} - {SQUARES}
        self._weights = division.weights(ranks.size)
        self._may_skip = step[2].loss_scale is not None
        self._holders, self.state_types = self._shared_states()
        self._is_checked = False
        self._averages_of: int | None = None
        if RANDOM_STATE in self.backward.state_types:
            self.set_state(RANDOM_STATE, self.backward.state[RANDOM_STATE])

    @property
    def early(self) -> int:
        """How many buckets were summed in the last step before all gradients were there."""
        return sum(item.early for item in self._reductions.values())

    @property
    def buckets(self) -> int:
        """How many buckets gradients leave in."""
        return sum(len(item.layout.buckets) for item in self._reductions.values())

    @property
    def own_states(self) -> set[str]:
        """The states that this rank keeps, parameters aside."""
        types = {**self.backward.state_types, **self.update.state_types}
        return types.keys() - self._split.trained.keys()

    def _reducing(
        self, most: int, compiled: Callable[[ModuleOp, Parameters, int | None], Executable]
    ) -> tuple[dict[str, Reduction], dict[str, dict[int, list[str]]]]:
        """What sums the gradients of each element type, and which of its buckets leave behind which
        launches.
        """
        own = self._ready()
        ready = self.ranks.exchange("orders of gradients", own)[0]
        kinds: dict[str, dict[str, tuple[int, ...]]] = {}
        types = dict(self._split.gradients.values())
        for output in in_order(ready, list(types)):
            element = element_of(types[output]).name
            kinds.setdefault(element, {})[output] = tuple(types[output].get_shape())
        found: dict[str, Reduction] = {}
        for element, shapes in kinds.items():
            sizes = {name: prod(shape) for name, shape in shapes.items()}
            layout = lay_out(sizes, most // DTYPES[element].itemsize, self.ranks.summing)
            carrier = self._carrier(element, shapes, layout, compiled)
            wants = self._split.takes_squares
            found[element] = Reduction(self.ranks, layout, element, carrier, wants)
        return found, {kind: item.ends(own) for kind, item in found.items()}

    def _carrier(
        self,
        element: str,
        shapes: Mapping[str, tuple[int, ...]],
        layout: Layout,
        compiled: Callable[[ModuleOp, Parameters, int | None], Executable],
    ) -> Carrier:
        """What carries gradients from and to this rank's device."""

        def place(name: str) -> Any:
            return self.backward.launched.place(name)

        def target(name: str) -> Any:
            return self.update.launched.place(name, is_input=True)

        if self.session.device.kind in HOST_KINDS:
            return HostCarrier(self.session, element, shapes, place)
        carrier = DeviceCarrier(self.session, element, place, target)
        squares = self._split.takes_squares and self.ranks.is_one_host
        with self.ranks.in_turn():
            carrier.compile(
                element,
                (self.ranks.node_size, layout.length),
                lambda module, session: compiled(module, Parameters(session, 0), None),
                squares,
            )
        return carrier

    def _ready(self) -> dict[str, int]:
        """The number of the launch behind which each gradient is there."""
        exe = self.backward
        accesses = {name: kernel.accesses for name, kernel in exe.kernels.items()}
        buffers = {item.name: item.buffer for item in exe.plan.outputs}
        return {
            output: exe.plan.written_up_to(accesses, [buffers[output]]) for output in self._outputs
        }

    # ---- a step

    def step(self, number: int, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """A step on this rank's share of a batch: all results, those that are scalars of the whole
        batch. What is not finite is summed without a word, as devices do.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            return self._step(number, batch)

    def _step(self, number: int, batch: Mapping[str, Any]) -> dict[str, np.ndarray]:
        self.ranks.exchange(f"step {number + 1}", None)
        if not self._is_checked:
            self._check_equal()
        check_batch(batch, self.division)
        rows = self.division.share_of(batch)
        self.params.initialise_declared()
        backward = self.backward.launched
        names = self._joined if self._may_skip else []
        before = {name: self.backward.state[name] for name in names}

        def behind(end: int) -> None:
            for kind, item in self._reductions.items():
                if end in self._leaving[kind]:
                    item.carrier.behind(end, self._leaving[kind][end])
            for item in summing:
                item.advance()

        summing = [item.begun(self._wanted) for item in self._reductions.values()]
        with backward.in_pieces(rows, self._ends, behind, left=self._outputs) as results:
            for item in summing:
                item.finish()
        squares = sum(item.squares for item in self._reductions.values())
        scalars = {name: value for name, value in results.items() if value.ndim == 0}
        found = self.ranks.exchange(f"results of step {number + 1}", (squares, scalars))
        results |= combined([item for _, item in found], self._weights)
        total = np.float32(sum(item for item, _ in found))
        given: dict[str, Any] = {SQUARES: total} if self._split.takes_squares else {}
        for item in self._reductions.values():
            given |= item.carrier.given(self._wanted)
        made = self._updated(given, self._wanted - given.keys())
        if self.owners is not None:
            held = self.owners.owner
            self.owners.publish({n: self.session.place(BufferKind.STATE, n) for n in held})
        if made.get(SKIPPED):
            for name, value in before.items():
                self.backward.state[name] = value
        else:
            self._join_states()
        return results | {name: value for name, value in made.items() if name != DONE}

    def _updated(self, given: Mapping[str, Any], placed: set[str]) -> dict[str, np.ndarray]:
        """Runs the update, of which some inputs are in their places already."""
        if not placed:
            return self.update.run(given)
        with self.update.launched.in_pieces(given, placed=placed) as made:
            pass
        return made

    def _check_equal(self) -> None:
        """MgnError where a parameter has another value on another rank."""
        self.params.initialise_declared()
        own = {name: zlib.crc32(value.tobytes()) for name, value in self.params.items()}
        found = self.ranks.exchange("values of parameters", own)
        for rank, held in enumerate(found):
            for name, digest in held.items():
                if digest != found[0].get(name):
                    raise MgnError(
                        f"parameter {shown(name)} has another value on rank {rank} than on rank 0; "
                        "all ranks begin with the same: set it on each"
                    )
        self._is_checked = True

    def _join_states(self) -> None:
        """Has the states that the program writes be one on all ranks: means of floats by the sizes
        of shares, and the first rank's where they are no floats.
        """
        if not self._joined:
            return
        own = {name: self.backward.state[name] for name in self._joined}
        found = self.ranks.exchange("states of the program", own)
        for name in self._joined:
            first = found[0][name]
            if first.dtype.kind in "iub":
                self.backward.state[name] = first
                continue
            wide = sum(
                item[name].astype(np.float64) * weight
                for item, weight in zip(found, self._weights, strict=True)
            )
            self.backward.state[name] = np.asarray(wide).astype(first.dtype)

    @cached_property
    def program_states(self) -> list[str]:
        """The states of the program itself that a step writes."""
        accesses = {name: kernel.accesses for name, kernel in self.backward.kernels.items()}
        plan = self.backward.plan
        written = {plan.buffers[number].name for number in plan.written_states(accesses)}
        return [name for name in self.backward.state_types if name in written]

    @cached_property
    def _joined(self) -> list[str]:
        """Those of them that are one on all ranks."""
        return [name for name in self.program_states if name != RANDOM_STATE]

    # ---- what is kept

    def _shared_states(self) -> tuple[dict[str, int], dict[str, StateType]]:
        """For each state that not all ranks have, the rank that has it; and all states' types."""
        own = {**self.backward.state_types, **self.update.state_types}
        found = self.ranks.exchange("types of states", own)
        types = {name: type for item in found for name, type in item.items()}
        holders = {
            name: next(rank for rank, item in enumerate(found) if name in item)
            for name in types
            if name == RANDOM_STATE or not all(name in item for item in found)
        }
        return holders, types

    def states(self) -> dict[str, np.ndarray]:
        """All states but the parameters: of those that ranks share out, what their owners have."""
        return {name: self._state(name) for name in self.state_types}

    def _state(self, name: str) -> np.ndarray:
        holder = self._holders.get(name)
        if holder is None:
            return self.backward.state[name]
        item, shape = self.state_types[name]
        is_mine = holder == self.ranks.rank
        value = self.backward.state[name] if is_mine else np.empty(shape, DTYPES[item])
        value = np.ascontiguousarray(value).reshape(shape)
        self.ranks.broadcast(value, holder)
        return value

    def set_state(self, name: str, value: np.ndarray) -> None:
        """Takes a state from a whole: a rank leaves what it does not own."""
        self._averages_of = None
        if name == RANDOM_STATE:
            self.backward.state[name] = own_key(value, self.ranks.rank)
        elif self._holders.get(name, self.ranks.rank) == self.ranks.rank:
            self.backward.state[name] = value

    def share_averages(self, names: list[str], steps: int) -> None:
        """Has each rank hold the averages of all parameters as they are after so many steps."""
        if self.owners is not None and self._averages_of != steps:
            for name in names:
                self.backward.state[name] = self._state(name)
            self._averages_of = steps

    def evaluated(
        self, exe: Executable, batch: Mapping[str, Any], division: Division
    ) -> dict[str, np.ndarray]:
        """The results of a graph for this rank's share of a batch; scalars of the whole batch."""
        check_batch(batch, division)
        results = exe.run(division.share_of(batch))
        scalars = {name: value for name, value in results.items() if value.ndim == 0}
        found = self.ranks.exchange("an evaluation", scalars)
        return results | combined(found, division.weights(self.ranks.size))


def own_key(state: np.ndarray, rank: int) -> np.ndarray:
    """The state of random numbers of a rank: that of the first with another key, so that each
    share of a batch draws its own numbers.
    """
    key = np.array(state, np.uint32)
    key[1] ^= np.uint32(rank * WEYL[0] & _WORD)
    return key


def _bytes_of(parameter: ParamOp) -> int:
    return prod(parameter.type.get_shape()) * DTYPES[element_of(parameter.type).name].itemsize
