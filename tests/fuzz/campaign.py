"""Runs the program fuzzer for a time or a count, in several processes, and tells what was found.

In: `Options`. Out: what was found on the standard output as it comes, a summary, and the exit
status: 1 where anything was found. A process that dies or hangs is a finding too: its programs are
tried again one by one, in a new process.
"""

import gc
import multiprocessing
import os
import tempfile
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.fuzz.cases import Counts, Finding

BATCH = 48
"""Programs that are tried together; a batch begins at a multiple of it."""

BATCH_SECONDS = 600.0
"""After which a process is taken to hang."""

LAST_WORDS = 20
"""Lines of a process's standard error that are told when it is gone."""

IN_MEMORY = "/dev/shm"
"""Where the files of e-graphs are written, where there is such a folder."""

NUMBERS = count()
"""Of processes, which name their files."""

Batch = tuple[int, ...]


@dataclass(frozen=True)
class Options:
    """What is asked for on the command line."""

    minutes: float | None = None
    count: int | None = None
    processes: int = 1
    seed: int = 0
    device: str = "cpu"
    what: str = "programs"
    modules: int = 1
    ways: int = 2
    share: float = 1.0
    first: int = 0


def main(options: Options) -> int:
    """Runs the campaign; the exit status."""
    campaign = Campaign(options)
    campaign.run()
    print(campaign.summary(), flush=True)
    return 1 if campaign.found else 0


class Campaign:
    """Hands out batches of programs to processes and gathers what they find."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.counts = Counts()
        self.found = 0
        self._started = time.monotonic()
        self._next = options.first
        self._again: deque[Batch] = deque()
        self._folder = tempfile.TemporaryDirectory(prefix="mgn-fuzz-")
        self.workers: list[_Worker] = []

    def run(self) -> None:
        """Until the time is over, or as many programs as asked for were tried."""
        while self.begin():
            ready = wait([item.connection for item in self.workers if item.batch], timeout=5.0)
            for worker in [item for item in self.workers if item.connection in ready]:
                self._receive(worker)
            for worker in [item for item in self.workers if item.hangs]:
                self._lost(worker, f"took over {BATCH_SECONDS:.0f} s")
        for worker in self.workers:
            worker.stop()

    def summary(self) -> str:
        """What was tried, at which rate, in one line."""
        seconds = time.monotonic() - self._started
        counts = self.counts
        share = counts.claimed / max(counts.elements, 1)
        return (
            f"{counts.programs} programs judged of {counts.drawn} drawn, "
            f"{counts.runs} runs on {self.options.device}, "
            f"{counts.modules} optimised modules in {seconds:.0f} s "
            f"({counts.programs / seconds:.1f} programs/s); {self.found} findings; "
            f"{share:.0%} of {counts.elements} result elements known to a thousandth or better; "
            f"seed {self.options.seed}, programs {self.options.first} to {self._next - 1}"
        )

    def begin(self) -> bool:
        """Gives a batch to each idle process; whether any is at work."""
        while len(self.workers) < self.options.processes:
            self.workers.append(_Worker(self.options, self._folder.name))
        for worker in self.workers:
            batch = None if worker.batch else self._batch()
            if batch:
                worker.begin(batch)
        return any(worker.batch for worker in self.workers)

    def _batch(self) -> Batch | None:
        if self._again:
            return self._again.popleft()
        options = self.options
        room = BATCH - self._next % BATCH
        left = room if options.count is None else options.first + options.count - self._next
        if options.minutes is not None and time.monotonic() - self._started > 60 * options.minutes:
            return None
        if left <= 0:
            return None
        numbers = tuple(range(self._next, self._next + min(room, left)))
        self._next = numbers[-1] + 1
        return numbers

    def _receive(self, worker: "_Worker") -> None:
        try:
            counts, findings, lost = worker.connection.recv()
        except (EOFError, ConnectionError):
            self._lost(worker, "ended the process")
            return
        self.counts.add(counts)
        for text in findings:
            self._tell(text)
        if lost:
            self._lost(worker, lost)
        worker.batch = ()

    def _lost(self, worker: "_Worker", what: str) -> None:
        """A process that is gone: its programs one by one, or the one that it was."""
        batch = worker.batch
        worker.stop()
        again = " (they are tried again one by one)" if len(batch) > 1 else ""
        told = f"seed {self.options.seed}, programs {batch[0]} to {batch[-1]}: {what}{again}"
        self._tell("\n".join([told, *worker.last_words()]))
        if again:
            self._again.extend((number,) for number in batch)
        self.workers[self.workers.index(worker)] = _Worker(self.options, self._folder.name)

    def _tell(self, text: str) -> None:
        self.found += 1
        print(f"== finding {self.found}\n{text}\n", flush=True)


class _Worker:
    """A process that tries batches; `batch` is what it is at. Its errors go to a folder."""

    def __init__(self, options: Options, folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._errors = Path(folder) / f"{next(NUMBERS)}.log"
        self.connection, theirs = context.Pipe()
        self.batch: Batch = ()
        self._since = 0.0
        arguments = (theirs, options, self._errors)
        self.process = context.Process(target=work, args=arguments, daemon=True)
        self.process.start()
        theirs.close()

    @property
    def hangs(self) -> bool:
        """Whether it is at its batch for too long."""
        return bool(self.batch) and time.monotonic() - self._since > BATCH_SECONDS

    def begin(self, batch: Batch) -> None:
        """Gives it a batch."""
        self.batch, self._since = batch, time.monotonic()
        with suppress(ConnectionError):  # it is gone, which receiving from it tells
            self.connection.send(batch)

    def stop(self) -> None:
        """Ends the process, which is idle, gone or hangs."""
        self.connection.close()
        self.process.kill()
        self.process.join()

    def last_words(self) -> list[str]:
        """The last lines that the process wrote on its standard error: drivers' compilers write
        there, and a traceback ends it.
        """
        if not self._errors.exists():
            return []
        told = self._errors.read_text(encoding="utf-8", errors="replace")
        return told.splitlines()[-LAST_WORDS:]


def work(connection: Connection, options: Options, errors: Path) -> None:
    """Tries the batches that come, in a process of its own, whose standard error is a file."""
    with errors.open("ab") as file:
        os.dup2(file.fileno(), 2)
    from tests.fuzz.device import Runner
    from tests.fuzz.trial import DeviceLost, Trials

    gc.set_threshold(50_000, 20, 20)
    if Path(IN_MEMORY).is_dir():
        tempfile.tempdir = IN_MEMORY
    runner = None if options.device == "none" else Runner(options.device)
    trials = Trials(runner, options.modules, options.ways, options.share)
    while True:
        try:
            batch = connection.recv()
        except EOFError:
            return
        trials.counts = Counts()
        try:
            findings = tried(trials, options.seed, batch)
        except DeviceLost as error:
            connection.send((Counts(), [], f"lost the device: {error}"))
            return
        connection.send((trials.counts, findings, ""))


def tried(trials: Any, seed: int, batch: Batch) -> list[str]:
    """What is wrong with the programs of these numbers, each cut down and told."""
    from tests.fuzz.makers import random_program
    from tests.fuzz.minimise import minimise

    programs = [(f"{seed}:{number}", random_program(f"{seed}:{number}")) for number in batch]
    findings = trials.batch(programs, f"{seed}:{batch[0] // BATCH} of {BATCH}")
    counts = trials.counts
    trials.counts = Counts()
    told = [tell(minimise(found, trials.again)) for found in findings]
    trials.counts = counts
    return told


def tell(found: Finding) -> str:
    """A finding with its program, its inputs and the way to run it."""
    call = "" if found.variant is None else found.variant.call()
    seed, _, numbers = found.seed.partition(":")
    first, _, last = numbers.partition("-")
    count = int(last) - int(first) + 1 if last else 1
    lines = [
        f"program {found.seed}, {found.where}, {found.variant or 'declared types'}: {found.what}",
        f"again: python -m tests.fuzz --seed {seed} --first {first} --count {count}",
        found.program.snippet(call or "mgn.compile(mgn.parse(text))"),
    ]
    return "\n".join(lines)
