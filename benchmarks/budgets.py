"""`python -m benchmarks.budgets [--smollm2] [--shares S …]`: training steps in less memory.

For each graph the memory of a step without a budget, and a row for each budget, a share of the
arena: the peak, what repeated kernels add by their prices, how far that is above the programme's
bound, and the processor's seconds that planning took. Small graphs run on the CPU as well, and
their steps are compared bit by bit. SmolLM2, at 1 × 128 and 8 × 512 tokens, is only compiled, for
an H200 that need not be there.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp

import mgn
from benchmarks.table import Table
from mgn import nn, ops
from mgn.dialects.kernel.device import DEVICES
from mgn.dialects.plan import ProgramOp
from mgn.driver.pipelines import parse_passes, run_passes
from mgn.modules.dialect_table import make_context
from mgn.passes.plan_memory import PlanMemory
from mgn.passes.rematerialise.budget import bytes_text
from mgn.passes.rematerialise.rematerialise import Rematerialise

COLUMNS = (
    *("graph", "budget", "peak", "more", "above bound", "states early", "planned in", "bits"),
)
SHARES = (0.9, 0.7, 0.5, 0.35)
ROOT = Path(__file__).resolve().parent.parent
BEFORE = (
    "training-step{optimizer=adamw},raise-checks,differentiate,thread-states,unpack-blocks,"
    "simplify,convert-precision,saturate,choose-schedules,price-kernels,lower-kernels"
)


@dataclass(frozen=True)
class Net:
    """A graph to train and batches for it."""

    name: str
    build: Callable[[], Any]
    batch: Callable[[int], Mapping[str, np.ndarray]]


def deep() -> Any:
    """Twelve equal layers."""
    with mgn.graph("deep") as g:
        h = g.input("x", "f32[256, 128]")
        for n in range(12):
            h = ops.dropout(ops.tanh(nn.Linear(128, 128, name=f"layer{n}")(h)), 0.1)
        g.output(loss=ops.mean(h * h))
    return g


def decoder() -> Any:
    """Two blocks of attention and of a product with gelu."""
    with mgn.graph("decoder") as g:
        tokens, t = g.input("tokens", "i32[4, 64]"), g.input("t", "i32[4, 64]")
        x = ops.embedding(tokens, g.param("words", "f32[80, 64]", nn.normal()))
        for n in range(2):
            h = nn.RMSNorm(64, name=f"n{n}")(x)
            q, k, v = (nn.Linear(64, 64, name=f"{part}{n}")(h) for part in "qkv")
            x = x + ops.dropout(ops.attention(q, k, v, heads=4, causal=True), 0.2)
            h = nn.Linear(64, 256, name=f"up{n}")(nn.RMSNorm(64, name=f"m{n}")(x))
            x = x + nn.Linear(256, 64, name=f"down{n}")(ops.gelu(h))
        logits = ops.reshape(nn.Linear(64, 80, name="head")(x), [256, 80])
        g.output(loss=ops.cross_entropy(logits, ops.reshape(t, [256])))
    return g


def lenet() -> Any:
    """Convolutions, pools and dense layers."""
    with mgn.graph("lenet") as g:
        x, t = g.input("x", "f32[32, 1, 28, 28]"), g.input("t", "i32[32]")
        first = g.param("first", "f32[6, 1, 5, 5]", nn.he_normal())
        second = g.param("second", "f32[16, 6, 5, 5]", nn.he_normal())
        h = ops.max_pool2d(ops.relu(ops.conv2d(x, first, padding=2)), 2)
        h = ops.max_pool2d(ops.relu(ops.conv2d(h, second)), 2)
        h = ops.relu(nn.Linear(400, 120, name="c")(ops.reshape(h, [32, 400])))
        logits = nn.Linear(84, 10, name="e")(ops.relu(nn.Linear(120, 84, name="d")(h)))
        g.output(loss=ops.cross_entropy(logits, t))
    return g


def _floats(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda random: random.standard_normal(shape).astype(np.float32)


def _ids(most: int, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda random: random.integers(0, most, shape).astype(np.int32)


def _batch(**draws: Callable[[np.random.Generator], np.ndarray]) -> Callable[[int], Any]:
    return lambda seed: {n: draw(np.random.default_rng(seed)) for n, draw in draws.items()}


NETS = (
    Net("12 layers, 256 × 128", deep, _batch(x=_floats(256, 128))),
    Net("LeNet, 32", lenet, _batch(x=_floats(32, 1, 28, 28), t=_ids(10, 32))),
    Net("decoder, 4 × 64", decoder, _batch(tokens=_ids(80, 4, 64), t=_ids(80, 4, 64))),
)


def trained(net: Net, shares: list[float], table: Table) -> None:
    """The rows of a graph that is trained on the CPU."""
    free = mgn.Trainer(net.build(), seed=1, device="cpu")
    memory = free.executable.report.memory
    assert memory is not None
    whole = free.executable.allocated
    wanted = [free.step(net.batch(seed)) for seed in range(2)]
    table.print(_row(net.name, "none", whole))
    for share in shares:
        budget = int(whole - (1 - share) * memory.arena)
        start = time.process_time()
        try:
            trainer = mgn.Trainer(net.build(), seed=1, device="cpu", memory=budget)
        except mgn.MgnError as error:
            table.print(_row(net.name, bytes_text(budget), 0, refused=str(error)))
            continue
        seconds = time.process_time() - start
        same = all(
            trainer.step(net.batch(seed))[name].tobytes() == value.tobytes()
            for seed, outputs in enumerate(wanted)
            for name, value in outputs.items()
            if name == "loss"
        )
        state, other = trainer.state(), free.state()
        same &= all(state[name].tobytes() == other[name].tobytes() for name in other)
        report = trainer.executable.report.memory
        assert report is not None and report.budget is not None
        told = report.budget
        planning = dict(trainer.executable.report.times).get("rematerialise", seconds)
        figures = (told.seconds, told.bound, told.total, planning, told.early)
        table.print(_row(net.name, bytes_text(budget), told.peak, figures, same))


def _row(
    name: str,
    budget: str,
    peak: int,
    figures: tuple[float, float, float, float, bool] | None = None,
    same: bool | None = None,
    refused: str = "",
) -> dict[str, str]:
    row = dict.fromkeys(COLUMNS, "")
    row |= {"graph": name, "budget": budget, "peak": bytes_text(peak) if peak else "no plan"}
    if figures is not None:
        seconds, bound, total, planning, early = figures
        row["more"] = f"{seconds / total:.1%}"
        row["above bound"] = f"{seconds / bound - 1:.1%}" if 0 < bound <= seconds else ""
        row["states early"] = "yes" if early else ""
        row["planned in"] = f"{planning:.1f} s"
    if same is not None:
        row["bits"] = "same" if same else "OTHER"
    if refused:
        print(refused, file=sys.stderr)
    return row


def smollm2(batch: int, size: int, shares: list[float], table: Table) -> None:
    """The rows of a step of SmolLM2 that is compiled for an H200."""
    text = (ROOT / "examples" / "smollm2.mgn").read_text()
    text = text.replace("(tokens: i32[B, S])", "(tokens: i32[B, S], labels: i32[B, S])")
    loss = "cross_entropy(reshape(logits, [B * S, VOCAB]), reshape(labels, [B * S]))"
    text = text.replace("return logits", f"return loss = {loss}")
    module = mgn.parse(text).lower("smollm2", {"B": batch, "S": size})
    module.attributes["mgn.device"] = DEVICES["nvidia-h200"].to_attribute()
    run_passes(parse_passes(BEFORE), module, make_context())
    name = f"SmolLM2, {batch} × {size}"
    program, _, _ = planned(module.clone(), 1 << 50)
    whole, arena = _figure(program, "peak"), program.arena_bytes
    table.print(_row(name, "none", whole))
    for share in shares:
        budget = int(whole - (1 - share) * arena)
        start = time.process_time()
        try:
            program, pass_, seconds = planned(module.clone(), budget)
        except mgn.MgnError as error:
            table.print(_row(name, bytes_text(budget), 0, refused=str(error)))
            print(f"{time.process_time() - start:.1f} s", file=sys.stderr)
            continue
        told = pass_.outcomes[0]
        figures = (told.seconds, told.bound, told.total, seconds, told.early)
        table.print(_row(name, bytes_text(budget), _figure(program, "peak"), figures))


def planned(module: ModuleOp, budget: int) -> tuple[ProgramOp, Rematerialise, float]:
    """The program of a lowered module within a budget, and the processor's seconds it took."""
    start = time.process_time()
    pass_ = Rematerialise(memory=budget)
    pass_.apply(Context(), module)
    PlanMemory().apply(Context(), module)
    program = next(op for op in module.body.block.ops if isinstance(op, ProgramOp))
    return program, pass_, time.process_time() - start


def _figure(program: ProgramOp, name: str) -> int:
    value = program.attributes[name]
    assert isinstance(value, IntegerAttr)
    return value.value.data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shares", type=float, nargs="+", default=[*SHARES])
    parser.add_argument("--smollm2", action="store_true", help="SmolLM2's step as well")
    arguments = parser.parse_args()
    table = Table(22)
    for net in NETS:
        trained(net, arguments.shares, table)
    if arguments.smollm2:
        for batch, size in ((1, 128), (8, 512)):
            smollm2(batch, size, arguments.shares, table)


if __name__ == "__main__":
    main()
