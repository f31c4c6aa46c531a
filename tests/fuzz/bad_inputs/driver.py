"""The driver that throws broken files and texts at mgn, in child processes that may hang or crash.

In: targets, each with a corpus, a mutation and a check, and how many mutations are wanted. Out: a
report: how many ran, and each thing that went wrong once, with the smallest input that shows it.

A mutation is a function of the seed, the target and its number alone: a finding repeats. A check
accepts an input, or refuses it with a message of mgn's; whatever else happens is a finding: another
exception, more than five seconds of processor time, more than a gigabyte, the end of the process.
"""

import argparse
import importlib
import multiprocessing
import multiprocessing.connection
import os
import random
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, TypeVar

from tests.fuzz.bad_inputs.smaller import smaller

HANG_SECONDS = 5
"""Processor time that one check may take; four times that by the clock."""

MEMORY_BYTES = 1 << 30
"""What one check may take beside what the process had before."""

BATCH = 64
"""Mutations after which a child says how far it is."""

MUTATING = 0.85
"""The share of the time that is for mutations; the rest is for making smaller what was found."""

MINIMISING_SECONDS = 120.0
"""For making all findings smaller, where a count was asked for and no time."""

PROGRESS_SECONDS = 20.0
"""After so long the driver says how far it is."""

PLACES = ("tests.fuzz.bad_inputs.text_inputs", "tests.fuzz.bad_inputs.binary_inputs")
"""The modules whose `TARGETS` are run."""

FORK = multiprocessing.get_context("fork")


Made = TypeVar("Made")


def apart(function: Callable[[], Made]) -> Made:
    """What a module's function gives in a new process. Saturation starts threads, which do not
    outlive a fork: children of a process that has them would wait for ever.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function)


class Finding(Exception):
    """A check saw something that must not be: a message without a place, a wrong acceptance."""


class _Hang(BaseException):
    """The time of one check is over; no handler of the code under test takes this one."""


@dataclass(frozen=True)
class Target:
    """A format: examples that are right, a way to break one, and what has to hold of any input."""

    name: str
    corpus: Callable[[], list[bytes]]
    mutate: Callable[[random.Random, bytes], bytes]
    check: Callable[[bytes], None]
    share: float = 1.0
    """Mutations, in proportion to those of other targets: dear checks have a small one."""


@dataclass(frozen=True)
class Failure:
    """What went wrong for one input. `key` is the same for what is probably one fault."""

    target: str
    number: int
    key: str
    text: str
    data: bytes

    def __str__(self) -> str:
        shown = self.data[:4000]
        return f"== {self.target} #{self.number}: {self.text}\n{shown!r}\n"


@dataclass
class Report:
    """What a run of the driver did."""

    ran: Counter[str] = field(default_factory=Counter[str])
    failures: list[Failure] = field(default_factory=list[Failure])
    seconds: float = 0.0

    def __str__(self) -> str:
        lines = [str(item) for item in self.failures]
        lines += [f"{name:24} {count:10,}" for name, count in sorted(self.ran.items())]
        return "\n".join([*lines, self.progress(self.seconds)])

    def progress(self, seconds: float) -> str:
        """How much ran in this time, in one line."""
        total = sum(self.ran.values())
        rate = total / max(seconds, 1e-9)
        return (
            f"{total:,} mutations in {seconds:.0f} s ({rate:,.0f} a second), "
            f"{len(self.failures)} findings"
        )


def run(
    targets: Sequence[Target],
    count: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    processes: int = 1,
) -> Report:
    """Runs so many mutations, or for so long, over all targets in proportion to their shares.

    The time includes making examples before and findings smaller after.
    """
    started = time.monotonic()
    corpora = {target.name: target.corpus() for target in targets}
    until = None if seconds is None else started + MUTATING * seconds
    work = _batches(targets, count)
    report = Report()
    known: set[str] = set()
    children = [_Child(targets, corpora, seed) for _ in range(processes)]
    told = started
    try:
        busy = [child for child in children if child.take(work, until)]
        while busy and not _is_over(until):
            multiprocessing.connection.wait([child.pipe for child in busy], timeout=1.0)
            for child in list(busy):
                for failure in child.collect(report):
                    if failure.key not in known:
                        known.add(failure.key)
                        report.failures.append(failure)
                if not child.has_work and not child.take(work, until):
                    busy.remove(child)
            if time.monotonic() - told > PROGRESS_SECONDS:
                told = time.monotonic()
                sys.stdout.write(f"{report.progress(told - started)}\n")
                sys.stdout.flush()
    finally:
        for child in children:
            child.stop()
    report.seconds = time.monotonic() - started
    left = MINIMISING_SECONDS if seconds is None else seconds - report.seconds
    report.failures = _all_minimal(targets, report.failures, left)
    return report


def _is_over(until: float | None) -> bool:
    return until is not None and time.monotonic() >= until


def _all_minimal(
    targets: Sequence[Target], failures: Sequence[Failure], seconds: float
) -> list[Failure]:
    """Failures with smaller inputs, each with its share of the time."""
    by_name = {target.name: target for target in targets}
    end = time.monotonic() + seconds
    smallest: list[Failure] = []
    for number, failure in enumerate(failures):
        share = max(0.0, end - time.monotonic()) / (len(failures) - number)
        smallest.append(_minimal(by_name[failure.target], failure, share))
    return smallest


def _batches(targets: Sequence[Target], count: int | None) -> Iterator[tuple[int, int, int]]:
    """Target, first number, how many: the target that is furthest behind its share is next."""
    total = sum(target.share for target in targets)
    goals = [None if count is None else round(count * item.share / total) for item in targets]
    done = [0] * len(targets)
    while True:
        open_ones = [i for i, goal in enumerate(goals) if goal is None or done[i] < goal]
        if not open_ones:
            return
        index = min(open_ones, key=lambda i: done[i] / targets[i].share)
        goal = goals[index]
        size = BATCH if goal is None else min(BATCH, goal - done[index])
        yield index, done[index], size
        done[index] += size


class _Child:
    """A process that runs batches, and is started again when it died."""

    def __init__(
        self, targets: Sequence[Target], corpora: dict[str, list[bytes]], seed: int
    ) -> None:
        self.targets, self.corpora, self.seed = targets, corpora, seed
        self.current = FORK.RawArray("q", 1)
        self.batch: tuple[int, int, int] | None = None
        self._start()

    def _start(self) -> None:
        self.pipe, theirs = FORK.Pipe()
        arguments = (theirs, self.targets, self.corpora, self.seed, self.current)
        self.process = FORK.Process(target=_work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    @property
    def has_work(self) -> bool:
        """Whether a batch was sent and is not finished."""
        return self.batch is not None

    def take(self, work: Iterator[tuple[int, int, int]], until: float | None) -> bool:
        """Sends the next batch, unless there is none or the time is over."""
        batch = None if _is_over(until) else next(work, None)
        if batch is None:
            return False
        self._send(batch)
        return True

    def _send(self, batch: tuple[int, int, int]) -> None:
        self.batch, self.begun = batch, time.monotonic()
        self.last = -1
        self.pipe.send(batch)

    def collect(self, report: Report) -> list[Failure]:
        """Failures since the last call; a process that died or hangs is replaced."""
        assert self.batch is not None
        index, _, size = self.batch
        target = self.targets[index]
        failures: list[Failure] = []
        try:
            while self.pipe.poll():
                answer = self.pipe.recv()
                if answer is None:
                    report.ran[target.name] += size
                    self.batch = None
                    return failures
                failures.append(answer)
        except (EOFError, ConnectionResetError):
            self.process.join()
            reason = f"the process ended with {self.process.exitcode}"
            return [*failures, self._died(report, reason)]
        if self.current[0] != self.last:
            self.last, self.begun = self.current[0], time.monotonic()
        elif time.monotonic() - self.begun > 4 * HANG_SECONDS:
            self.process.kill()
            self.process.join()
            reason = f"no answer within {4 * HANG_SECONDS} seconds"
            return [*failures, self._died(report, reason)]
        return failures

    def _died(self, report: Report, reason: str) -> Failure:
        assert self.batch is not None
        index, first, size = self.batch
        target, number = self.targets[index], self.current[0]
        done = number - first + 1
        report.ran[target.name] += done
        data = _mutated(target, self.corpora[target.name], self.seed, number)
        self.pipe.close()
        self._start()
        self.batch = None
        if done < size:
            self._send((index, number + 1, size - done))
        return Failure(target.name, number, f"{target.name}: {reason}", reason, data)

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.join()


def _mutated(target: Target, corpus: Sequence[bytes], seed: int, number: int) -> bytes:
    random_ = random.Random(f"{seed}/{target.name}/{number}")
    return target.mutate(random_, random_.choice(corpus))


def _work(
    pipe: Connection,
    targets: Sequence[Target],
    corpora: dict[str, list[bytes]],
    seed: int,
    current: Any,
) -> None:
    """The life of a child: batches in, failures out."""
    _limit_memory()
    signal.signal(signal.SIGPROF, _raise_hang)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _silence()
    while True:
        try:
            index, first, size = pipe.recv()
        except EOFError:
            return
        target = targets[index]
        for number in range(first, first + size):
            current[0] = number
            data = _mutated(target, corpora[target.name], seed, number)
            wrong = _wrong_with(target, data)
            if wrong is not None:
                pipe.send(Failure(target.name, number, *wrong, data))
        pipe.send(None)


def _wrong_with(target: Target, data: bytes) -> tuple[str, str] | None:
    """A key and a text of what is wrong with the answer to an input."""
    try:
        signal.setitimer(signal.ITIMER_PROF, HANG_SECONDS)
        try:
            target.check(data)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except Finding as finding:
        text = str(finding)
        return f"{target.name}: {text.split(':')[0]}", text
    except _Hang as hang:
        return _described(target, hang, f"more than {HANG_SECONDS} seconds")
    except MemoryError as error:
        return _described(target, error, f"more than {MEMORY_BYTES >> 20} MiB")
    except BaseException as error:
        return _described(target, error, f"{type(error).__name__}: {error}"[:500])
    return None


def _described(target: Target, error: BaseException, text: str) -> tuple[str, str]:
    """What escaped, with the end of its traceback; one key for one place in mgn's code."""
    frames = traceback.extract_tb(error.__traceback__)
    shown = [f"{Path(item.filename).name}:{item.lineno} {item.name}" for item in frames[-12:]]
    own = [item for item in frames if "site-packages" not in item.filename]
    place = f"{own[-1].filename}:{own[-1].lineno}" if own else ""
    kind = type(error).__name__
    if isinstance(error, _Hang | MemoryError | RecursionError):
        place = ""
    return f"{target.name}: {kind} {place}", f"{text}\n  " + "\n  ".join(shown)


def _minimal(target: Target, failure: Failure, seconds: float) -> Failure:
    """The failure with a smaller input that fails in the same way, as far as the time goes."""
    wanted = failure.key

    def fails(data: bytes) -> bool:
        return _key_of(target, data) == wanted

    data = smaller(failure.data, fails, seconds)
    return Failure(failure.target, failure.number, failure.key, failure.text, data)


def _key_of(target: Target, data: bytes) -> str | None:
    """What a child of its own says of one input."""
    mine, theirs = FORK.Pipe()
    process = FORK.Process(target=_answer, args=(theirs, target, data), daemon=True)
    process.start()
    theirs.close()
    reason = None
    try:
        if mine.poll(4 * HANG_SECONDS):
            return mine.recv()
        process.kill()
        reason = f"no answer within {4 * HANG_SECONDS} seconds"
    except EOFError:
        process.join()
        reason = f"the process ended with {process.exitcode}"
    finally:
        process.join()
        mine.close()
    return f"{target.name}: {reason}"


def _answer(pipe: Connection, target: Target, data: bytes) -> None:
    _limit_memory()
    signal.signal(signal.SIGPROF, _raise_hang)
    _silence()
    wrong = _wrong_with(target, data)
    pipe.send(None if wrong is None else wrong[0])


def _raise_hang(_: int, __: FrameType | None) -> NoReturn:
    raise _Hang


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _silence() -> None:
    """What the code under test prints is of no interest."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def all_targets(names: Sequence[str] = ()) -> list[Target]:
    """The targets of every module that is there, or those of these names."""
    targets: list[Target] = []
    for place in PLACES:
        targets += importlib.import_module(place).TARGETS
    unknown = set(names) - {target.name for target in targets}
    if unknown:
        listing = ", ".join(target.name for target in targets)
        raise SystemExit(f"no target {', '.join(sorted(unknown))}; there are {listing}")
    return [target for target in targets if not names or target.name in names]


def main(options: argparse.Namespace) -> int:
    """The part of `python -m tests.fuzz` for bad input: its exit status, after the report."""
    targets = all_targets(getattr(options, "targets", None) or ())
    count = getattr(options, "count", None)
    minutes = getattr(options, "minutes", None)
    seconds = None if minutes is None else 60.0 * minutes
    if count is None and seconds is None:
        count = 100_000
    processes = getattr(options, "processes", None) or os.cpu_count() or 1
    report = run(targets, count, seconds, getattr(options, "seed", 0), processes)
    sys.stdout.write(f"{report}\n")
    return 1 if report.failures else 0
