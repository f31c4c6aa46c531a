"""Sums of buckets whose copies take any time: each reads what is there, and is not gone yet."""

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mgn.distributed import reduction, windows
from mgn.distributed.carriers import Check, Rows
from mgn.distributed.layout import Part, lay_out
from mgn.distributed.reduction import Progress, Reduction

Gradients = dict[str, np.ndarray]


class Host:
    """Memory that ranks of one process share: the same for the same call of each."""

    def __init__(self) -> None:
        self.memories: list[np.ndarray] = []

    def rank(self, number: int, count: int) -> Any:
        """What `Reduction` asks of a rank."""
        node = SimpleNamespace(Ibarrier=lambda: None)
        return SimpleNamespace(
            host=self, taken=0, node=node, node_rank=number, node_size=count, is_one_host=True,
            wait=lambda request: None,
        )  # fmt: skip


class Memory:
    """As `SharedMemory`. All of it is rubbish at first."""

    def __init__(self, ranks: Any, size: int) -> None:
        memories = ranks.host.memories
        if ranks.taken == len(memories):
            memories.append(np.full(size, 0x7F if ranks.taken < 2 else 0, np.uint8))
        self.bytes = memories[ranks.taken]
        ranks.taken += 1

    def settle(self) -> None:
        """All of it is one process."""


class SlowCarrier:
    """Copies at a time drawn at random between the beginning and the end of each copy."""

    def __init__(self, gradients: Gradients, draw: np.random.Generator, keeps_own: bool) -> None:
        self.keeps_own, self.gradients, self._draw = keeps_own, gradients, draw
        self.sums = {name: np.full_like(value, np.nan) for name, value in gradients.items()}
        self._there: set[str] = set()
        self._totals: dict[int, np.ndarray] = {}
        self._passing: dict[int, list[Callable[[], None]]] = {0: [], 1: []}

    def share(self, memory: np.ndarray) -> None:
        """Needs no telling."""

    def forget(self) -> None:
        """Nothing is there."""
        self._there.clear()

    def behind(self, end: int, names: Any) -> None:
        """Tells which gradients are there."""
        self._there.update(names)

    def is_there(self, name: str) -> bool:
        """Whether it is told."""
        return name in self._there

    def leave(self, row: np.ndarray, part: Part) -> Check:
        """Copies once the gradient is there."""
        source = self.gradients[part.name][part.start : part.start + part.count]
        return self._slowly(
            lambda: np.copyto(row[part.place : part.place + part.count], source),
            lambda: self.is_there(part.name),
        )

    def add(self, turn: int, rows: Rows, total: np.ndarray) -> Iterator[Check]:
        """Reads rows, sums them, and writes the sum, each at some time."""
        for passed in self._passing[turn]:
            passed()
        self._passing[turn].clear()
        own = rows.of_ranks[rows.own].copy() if not self.keeps_own else np.zeros_like(total)
        for part in rows.kept if self.keeps_own else ():
            assert self.is_there(part.name)
            source = self.gradients[part.name][part.start : part.start + part.count]
            own[part.place : part.place + part.count] = source
        found = np.zeros_like(total)

        def read() -> None:
            for number, row in enumerate(rows.of_ranks):
                found[:] += own if number == rows.own else row

        yield self._slowly(read)
        self._totals[turn] = found
        yield self._slowly(lambda: np.copyto(total, found))

    def squares(self, turn: int, total: np.ndarray) -> float:
        """Of what was summed in the turn."""
        return float(np.square(self._totals[turn]).sum())

    def fetch(self, source: np.ndarray, part: Part) -> Check:
        """Copies at some time."""
        to = self.sums[part.name][part.start : part.start + part.count]
        return self._slowly(lambda: np.copyto(to, source))

    def pass_on(self, turn: int, part: Part) -> Check:
        """Copies before the next sum of the turn, as a queue does."""
        to, held = self.sums[part.name][part.start : part.start + part.count], self._totals[turn]
        passed = self._slowly(lambda: np.copyto(to, held[part.place : part.place + part.count]))
        self._passing[turn].append(
            lambda: np.copyto(to, held[part.place : part.place + part.count])
        )
        return passed

    def given(self, names: Any) -> dict[str, np.ndarray]:
        """All lie in their places."""
        return {}

    def _slowly(self, act: Callable[[], object], may: Check = lambda: True) -> Check:
        """Is done after some questions; what it does, it does at one of them."""
        acts, ends = sorted(self._draw.integers(0, 6, 2))
        asked = -1

        def done() -> bool:
            nonlocal asked
            if asked < ends and may():
                asked += 1
                if asked == acts:
                    act()
            return asked >= ends

        return done


@pytest.mark.parametrize("keeps_own", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_sums_are_right_whatever_the_time_that_copies_take(
    seed: int, keeps_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reduction, "SharedMemory", Memory)
    monkeypatch.setattr(windows, "SharedMemory", Memory)
    draw = np.random.default_rng(seed)
    count, host = int(draw.integers(1, 5)), Host()
    sizes = {f"w{number}": int(draw.integers(0, 90)) for number in range(draw.integers(1, 12))}
    layout = lay_out(sizes, int(draw.integers(1, 250)), count)
    carriers = [
        SlowCarrier(
            {n: draw.integers(-99, 99, size).astype(np.float32) for n, size in sizes.items()},
            draw,
            keeps_own,
        )
        for _ in range(count)
    ]
    ranks = [
        Reduction(host.rank(number, count), layout, "f32", carrier, True)
        for number, carrier in enumerate(carriers)
    ]
    for _ in range(3):
        run_together(ranks, [*sizes], draw)
        squares = 0.0
        for name in sizes:
            whole = np.sum([carrier.gradients[name] for carrier in carriers], axis=0)
            squares += float(np.square(whole).sum())
            for carrier in carriers:
                np.testing.assert_array_equal(carrier.sums[name], whole)
        assert sum(rank.squares for rank in ranks) == squares
        for carrier in carriers:
            for value in carrier.gradients.values():
                value += 1


def run_together(ranks: list[Reduction], names: list[str], draw: np.random.Generator) -> None:
    """A step of all ranks, each of which goes on at any time. Gradients come in their order."""
    running: list[Progress] = [rank.begun(names) for rank in ranks]
    told = [0] * len(ranks)
    for _ in range(100_000):
        number = int(draw.integers(len(ranks)))
        if told[number] < len(names) and draw.random() < 0.3:
            ranks[number].carrier.behind(0, [names[told[number]]])
            told[number] += 1
        running[number].advance()
        if all(item.is_done() for item in running):
            return
    raise AssertionError("the ranks wait for each other")
