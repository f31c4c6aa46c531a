"""`python -m benchmarks.ranks [--ranks N] [--check]`: training by several processes beside one.

Each of N ranks trains on as many rows of a batch as one process has alone; the efficiency is the
time of a step of one process over that of N. Ranks that share a processor have a part of its cores
each, and one process has as many; GPUs are one for each. The column `early` is which share of the
buckets was summed while the backward pass still ran.

`--check` compares losses instead: random small models, all optimisers, 2 and 4 ranks, with and
without shared out optimiser states, beside one process with the same batches. It ends with status 1
where one differs by more than rounding, or no bucket is summed early.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mgn
from benchmarks.table import Table
from benchmarks.training.device_cases import Arrays, smollm2_batch, smollm2_loss
from mgn.training.optimisers.named import OPTIMISERS

WARM = 5
"""Steps before the first that is timed."""

CHECKED = 8
"""Steps of a run whose losses are compared."""

TOLERANCE = 1e-4
"""The largest difference of losses, by their size."""

SETTINGS = ("device", "rows", "width", "layers", "smollm2", "precision", "steps", "bucket", "seeds")
"""The options that workers are given."""

RATES = {"sgd": 0.05, "lion": 0.003, "muon": 0.01, "adafactor": 0.02}


def main(arguments: Sequence[str] | None = None) -> int:
    """Starts the ranks, and prints what they have found."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ranks", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, help="how many processes (default: 2)")
    parser.add_argument("--device", default="auto", help="as in mgn-run")
    parser.add_argument("--rows", type=int, default=256, help="of a batch, for each rank")
    parser.add_argument("--width", type=int, default=512, help="of a layer")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--smollm2", type=int, default=0, help="tokens of rows of SmolLM2 instead")
    parser.add_argument("--precision", default="f32", help="as in mgn-train")
    parser.add_argument("--steps", type=int, default=30, help="that are timed")
    parser.add_argument("--bucket", type=float, default=1.0, help="MiB of gradients that leave")
    parser.add_argument("--seeds", type=int, default=2, help="models for each optimiser (--check)")
    parser.add_argument("--check", action="store_true", help="compare losses, and time nothing")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--zero", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker is not None:
        (check_worker if options.check else worker)(options)
        return 0
    return check(options) if options.check else measure(options)


def launched(options: argparse.Namespace, ranks: int, zero: int, bound: str | None) -> Any:
    """What the first of so many ranks has found."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "found.json"
        command = [str(Path(sysconfig.get_path("scripts")) / "mpiexec"), "-n", str(ranks)]
        command += ["-bind-to", bound] if bound else []
        command += [sys.executable, "-m", "benchmarks.ranks", "--worker", str(place)]
        for name in SETTINGS:
            command += [f"--{name}", str(getattr(options, name))]
        command += ["--zero", str(zero), *(["--check"] if options.check else [])]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode or not place.exists():
            raise SystemExit(f"{ranks} ranks ended with status {ended.returncode}:\n{ended.stderr}")
        return json.loads(place.read_text())


# ---- times


def measure(options: argparse.Namespace) -> int:
    """A table of times."""
    from mgn.runtime.devices import choose

    device = choose(options.device)
    bound = None
    if device.kind == "cpu":
        bound = f"core:{max((os.cpu_count() or 1) // options.ranks, 1)}"
    sizes = f"{options.width} a rank, {options.layers} layers"
    if options.smollm2:
        sizes = f"{options.smollm2} tokens a rank, SmolLM2-135M"
    print(f"{device.name}, {options.rows} rows of {sizes}, {options.precision}")
    table = Table(5)
    alone = None
    for ranks, zero in ((1, 0), (options.ranks, 0), (options.ranks, 1)):
        found = launched(options, ranks, zero, bound)
        alone = alone or found["seconds"]
        row: dict[str, Any] = {"ranks": ranks, "zero": zero, "ms a step": found["seconds"] * 1e3}
        row |= {"efficiency": alone / found["seconds"]}
        table.print(row | {name: found[name] for name in ("buckets", "early") if ranks > 1})
    return 0


def network(width: int, layers: int) -> str:
    """A network of equal layers."""
    return f"""
graph net[B = 1](x: f32[B, {width}], t: i32[B]) {{
  h = x
  for i in 0..{layers} {{
    param w: f32[{width}, {width}] as "layer.{{i}}" = he_normal()
    h = relu(h @ w.T)
  }}
  loss = cross_entropy(h, t)
  return loss
}}
"""


def workload(options: argparse.Namespace, draw: np.random.Generator) -> tuple[str, Arrays]:
    """The program that is trained, and a rank's rows of a batch."""
    rows, tokens = options.rows, options.smollm2
    if tokens:
        return smollm2_loss(rows, tokens), smollm2_batch(rows, tokens, draw)
    x = draw.standard_normal((rows, options.width)).astype(np.float32)
    classes = draw.integers(0, options.width, rows).astype(np.int32)
    return network(options.width, options.layers), {"x": x, "t": classes}


def worker(options: argparse.Namespace) -> None:
    """One rank: the median time of a step."""
    from mgn.distributed.launch import find_crew

    crew = find_crew()
    text, given = workload(options, np.random.default_rng(crew.rank))
    trainer = mgn.Trainer(
        mgn.parse(text),
        optimizer=mgn.AdamW(lr=1e-4),
        device=options.device,
        dims={"B": options.rows * crew.size},
        precision=options.precision,
        zero=options.zero,
        bucket=options.bucket,
    )
    times: list[float] = []
    early: list[float] = []
    for number in range(WARM + options.steps):
        begun = time.perf_counter()
        trainer.step(given)
        if number >= WARM:
            times.append(time.perf_counter() - begun)
            if trainer.shared is not None:
                early.append(trainer.shared.early / trainer.shared.buckets)
    if crew.is_first:
        found = {
            "seconds": statistics.median(times),
            "buckets": 0 if trainer.shared is None else trainer.shared.buckets,
            "early": statistics.mean(early) if early else 0.0,
        }
        options.worker.write_text(json.dumps(found))


# ---- losses


def check(options: argparse.Namespace) -> int:
    """A table of differences; 1 where one is too large."""
    table = Table(5)
    worst = 0.0
    for ranks in (2, 4):
        for name, zero, difference in launched(options, ranks, 0, None):
            row = {"ranks": ranks, "optimiser": name, "zero": zero, "difference": difference}
            table.print(row)
            worst = max(worst, difference)
    print(f"worst: {worst:.1e}, and {TOLERANCE:.0e} is allowed")
    options.check = False
    early = launched(options, 2, 0, None)["early"]
    print(f"summed while the backward pass runs: {early:.0%} of the buckets")
    return int(worst > TOLERANCE or not early)


def drawn_network(seed: int) -> tuple[str, int, int, int]:
    """A random small model, its batch, and the sizes of its inputs and classes."""
    draw = random.Random(seed)
    batch, features, classes = draw.randint(5, 17), draw.randint(3, 9), draw.randint(2, 6)
    lines: list[str] = []
    width = features
    for number in range(draw.randint(1, 3)):
        after = draw.randint(2, 24)
        lines.append(f"param w{number}: f32[{after}, {width}] = normal(std = 0.4)")
        lines.append(f"param b{number}: f32[{after}] = zeros()")
        activation = draw.choice(["tanh", "gelu", "sigmoid", "silu"])
        lines.append(f"h = {activation}(h @ w{number}.T + b{number})")
        if draw.random() < 0.5:
            lines.append(f"param g{number}: f32[{after}] = ones()")
            lines.append(f"h = rms_norm(h, g{number}, eps = 1e-3)")
        width = after
    lines.append(f"param out: f32[{classes}, {width}] = normal(std = 0.4)")
    body = "\n  ".join(["h = x", *lines, "logits = h @ out.T", "loss = cross_entropy(logits, t)"])
    text = f"graph net[B = {batch}](x: f32[B, {features}], t: i32[B]) {{\n  {body}\n"
    return f"{text}  return loss, logits\n}}\n", batch, features, classes


def check_worker(options: argparse.Namespace) -> None:
    """One rank: the largest difference for each optimiser."""
    from mgn.distributed.launch import find_crew

    crew = find_crew()
    found: list[tuple[str, int, float]] = []
    for number, name in enumerate(OPTIMISERS):
        optimiser = OPTIMISERS[name](lr=RATES.get(name, 0.01))
        for zero in (0, 1):
            worst = 0.0
            for seed in range(options.seeds):
                text, batch, features, classes = drawn_network(100 * number + seed)
                draw = np.random.default_rng(seed)
                count = 5 * batch + 2
                data = {
                    "x": draw.standard_normal((count, features)).astype(np.float32),
                    "t": draw.integers(0, classes, count).astype(np.int32),
                }
                extra: dict[str, Any] = {"clip_norm": 1.0, "ema": 0.9} if seed % 2 else {}

                def losses(text: str = text, optimiser: Any = optimiser, **given: Any) -> Any:
                    trainer = mgn.Trainer(mgn.parse(text), optimizer=optimiser, **given)
                    return np.array(trainer.fit(data, steps=CHECKED).losses)  # noqa: B023

                one = crew.from_first(lambda: losses(ranks=False, **extra))  # noqa: B023
                several = losses(zero=zero, bucket=1e-3, **extra)
                worst = max(worst, float(np.abs(several / one - 1).max()))
            found.append((name, zero, worst))
    if crew.is_first:
        options.worker.write_text(json.dumps(found))


if __name__ == "__main__":
    sys.exit(main())
