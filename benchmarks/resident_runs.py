"""`python -m benchmarks.resident_runs [--device D] [--runs N] [--hold GIB] [--beside N]`: whether a
resident launch gives the bits of separate launches, run after run.

In: a small decoder with a cache, compiled twice: all of its kernels in resident launches, whatever
they cost, and each as a launch of its own. Out: the first run whose logits differ, or that none
does, and both times. Each run reads what the one before has written to the cache.

`--hold` fills so much device memory before, `--beside` starts so many further processes that do the
same at the same time. 1 where a run differs, here or in one of them.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from mgn.driver.pipelines import PIPELINES

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "cached_decoder.mgn"
VOCABULARY = 97
GIB = 1 << 30
MERGING = "merge-launches"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints what was found. 1 where a run differs."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resident_runs")
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--hold", type=float, default=0.0, metavar="GIB")
    parser.add_argument("--beside", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    command = [sys.executable, "-m", "benchmarks.resident_runs", "--device", options.device]
    command += ["--runs", str(options.runs)]
    others = [subprocess.Popen(command) for _ in range(options.beside)]
    try:
        held = _held(options.device, options.hold)
        differs = _differs(options.device, options.runs)
        del held
    finally:
        statuses = [process.wait() for process in others]
    return int(differs or any(statuses))


def program_text() -> str:
    """The decoder, whose step gives its logits too."""
    text = EXAMPLE.read_text(encoding="utf-8")
    step = "return next = argmax(logits[:, 0, :]"
    return text.replace(step, step.replace("return", "return logits,"))


def _differs(device: str, runs: int) -> bool:
    """Whether a run differs, which is said."""
    program = mgn.parse(program_text())
    together = ",".join(PIPELINES["inference"]).replace(MERGING, f"{MERGING}{{always=true}}")
    one = mgn.compile(program, graph="decode", device=device, passes=together)
    each = mgn.compile(program, graph="decode", device=device, resident="off")
    merged = one.report.merged
    stages, barriers = sum(item.stages for item in merged), sum(item.barriers for item in merged)
    count = len(one.report.kernels)
    said = f"{count} launch{'es' * (count > 1)} of {stages} stages and {barriers} barriers"
    random = np.random.default_rng(0)
    taken = [0.0, 0.0]
    for run in range(runs):
        token = random.integers(0, VOCABULARY, (1,)).astype(np.int32)
        found: list[Any] = []
        for number, executable in enumerate((one, each)):
            start = time.perf_counter()
            found.append(executable(token=token))
            taken[number] += time.perf_counter() - start
        if any(found[0][name].tobytes() != value.tobytes() for name, value in found[1].items()):
            print(f"run {run} of {said} DIFFERS from that of {len(each.report.kernels)} launches")
            return True
    first, second = (1e6 * seconds / max(runs, 1) for seconds in taken)
    print(
        f"{runs} runs of {said} have the bits of {len(each.report.kernels)} launches; "
        f"{first:.0f} µs a call, {second:.0f} µs apart"
    )
    return False


def _held(device: str, gib: float) -> list[Any]:
    """Device memory that is held, written once."""
    import pyopencl as cl

    from mgn.runtime.devices import choose

    if gib <= 0:
        return []
    context = cl.Context([choose(device).handle])
    queue = cl.CommandQueue(context)
    held: list[Any] = []
    for _ in range(max(round(gib), 1)):
        buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE, min(round(gib * GIB), GIB))
        cl.enqueue_fill_buffer(queue, buffer, np.ones(1, np.uint8), 0, buffer.size)
        held.append(buffer)
    queue.finish()
    print(f"{sum(item.size for item in held) / GIB:g} GiB of device memory are held")
    return [queue, *held]


if __name__ == "__main__":
    raise SystemExit(main())
