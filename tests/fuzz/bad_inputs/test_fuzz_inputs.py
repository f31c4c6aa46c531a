"""The driver for bad input: what it finds and makes smaller, and a short run over every text."""

import os
import random
import subprocess
import sys

from tests.conftest import ROOT
from tests.fuzz.bad_inputs.driver import Finding, Target, run
from tests.fuzz.bad_inputs.smaller import smaller


def _change_a_byte(random_: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    changed[random_.randrange(len(changed))] = random_.randrange(256)
    return bytes(changed)


def _check(data: bytes) -> None:
    if b"\x01" in data:
        raise ValueError("one")
    if b"\x02" in data:
        os.abort()
    if b"\x03" in data:
        raise Finding("no place: three")
    if b"\x04" in data:
        bytearray(2 << 30)


def test_exceptions_crashes_findings_and_memory_are_told_once_each_with_a_small_input() -> None:
    target = Target("bytes", lambda: [b"hello there, all of you"], _change_a_byte, _check)
    report = run([target], count=3000, seed=1, processes=2)
    assert report.ran["bytes"] == 3000
    found = {failure.data: failure.text for failure in report.failures}
    assert set(found) == {b"\x01", b"\x02", b"\x03", b"\x04"}
    assert "the process ended with -6" in found[b"\x02"]
    assert "more than 1024 MiB" in found[b"\x04"]


def test_an_input_is_made_smaller_by_lines_words_and_bytes() -> None:
    data = b"first line\nsecond (word) here\nthird\n" * 20
    assert smaller(data, lambda item: b"(" in item and b"third" in item) == b"(third"


def test_texts_and_files_that_were_mutated_are_taken_or_refused_with_their_place() -> None:
    # A process of its own: the threads of egglog, which this one may have, do not outlive a fork.
    command = "import sys; from tests.fuzz.bad_inputs.driver import all_targets, run; "
    command += "report = run(all_targets(), count=1500, seed=0, processes=2); "
    command += "print(report); sys.exit(bool(report.failures))"
    words = [sys.executable, "-c", command]
    outcome = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert outcome.returncode == 0, outcome.stdout[-4000:] + outcome.stderr[-4000:]
