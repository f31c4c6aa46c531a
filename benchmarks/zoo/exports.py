"""`python -m benchmarks.zoo.exports [names] [--full] [--dim NAME=N] [--device D] [--precision P]`:
do exported models get the kernels of those written by hand?

In: names of models (default: all), at the sizes of the tests or, with `--full`, of their files, but
for what `--dim` gives.
Out: a row for each, with three counts of kernels: of the model in `examples/models/`, of its peer
as `torch.onnx.export` writes it, and of its peer as `torch.export` gives it. Beside each are the
modelled microseconds of a run. Nothing runs on a device, and no weights are compared. 1 where an
export gets more than a tenth more kernels, or its run takes more than a tenth longer.
"""

import argparse
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import mgn
from benchmarks.table import Table
from benchmarks.zoo.contestants import Positional
from benchmarks.zoo.entry import Entry
from benchmarks.zoo.table import add_choice, chosen
from benchmarks.zoo.trial import tensors_of
from mgn.passes.saturate import SaturateReport

MORE = 1.1
"""How many times the kernels, and the seconds, of the model by hand an export may have."""


class Cut(NamedTuple):
    """The kernels of each run, and their modelled seconds."""

    kernels: int
    seconds: float

    def excess_over(self, other: "Cut") -> float:
        """How many times the other's kernels it has, or the other's seconds, whichever is more."""
        return max(self.kernels / other.kernels, self.seconds / other.seconds)


class How(NamedTuple):
    """What a model is compiled for, as `mgn.optimize` takes it."""

    device: str
    precision: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo.exports", description=__doc__)
    add_choice(parser)
    parser.add_argument("--full", action="store_true", help="at the sizes of the files")
    parser.add_argument("--device", default="cpu", help="as in mgn.optimize")
    parser.add_argument("--precision", default="f32", help="as in mgn.optimize")
    options = parser.parse_args(arguments)
    entries = chosen(parser, options)
    warnings.simplefilter("ignore")  # of exporters, about their own insides
    table, worst = Table(18), 0.0
    for entry in entries:
        cuts, remarks = cuts_of(entry, not options.full, options.device, options.precision)
        row: dict[str, Any] = {"model": entry.name}
        for name, cut in cuts.items():
            row |= {name: cut.kernels, f"{name} µs": cut.seconds * 1e6}
            worst = max(worst, cut.excess_over(cuts["by hand"]))
        table.print(row)
        for remark in remarks:
            print(f"  {remark}", file=sys.stderr)
            worst = float("inf")
    return 0 if worst <= MORE else 1


def cuts_of(
    entry: Entry, small: bool, device: str = "cpu", precision: str = "f32"
) -> tuple[dict[str, Cut], list[str]]:
    """The kernels of each form of a model, and remarks on exports that failed."""
    import torch

    sizes, how = entry.sizes(small), How(device, precision)
    by_hand = mgn.parse_file(entry.path)
    found = {"by hand": _cut(by_hand, how, graph=entry.call.graph, dims=sizes)}
    remarks: list[str] = []
    torch.manual_seed(0)
    inputs = tensors_of(entry.call.inputs(sizes, np.random.default_rng(0)), wide=False)
    module = Positional(entry.call, entry.module(sizes).eval(), list(inputs)).module
    for name, load in EXPORTS.items():
        try:
            found[name] = _cut(load(module, tuple(inputs.values())), how)
        except Exception as error:  # of an exporter, or what mgn does not have: the row says so
            said = (str(error).strip().splitlines() or [""])[0]
            remarks.append(f"{name}: {type(error).__name__}: {said[:160]}")
    return found, remarks


def _cut(program: Any, how: How, **options: Any) -> Cut:
    report = mgn.optimize(program, **how._asdict(), **options).report
    assert isinstance(report.saturation, SaturateReport)
    return Cut(len(report.kernels), report.saturation.cost_after)


def _through_onnx(module: Any, inputs: tuple[Any, ...]) -> Any:
    import torch

    with torch.inference_mode():
        program = torch.onnx.export(module, inputs, dynamo=True, verbose=False)
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "peer.onnx"
        program.save(path, external_data=True)
        return mgn.from_onnx(path)


def _through_torch(module: Any, inputs: tuple[Any, ...]) -> Any:
    from mgn.torch import from_torch

    return from_torch(module, inputs)


EXPORTS: dict[str, Callable[[Any, tuple[Any, ...]], Any]] = {
    "ONNX": _through_onnx,
    "torch.export": _through_torch,
}
"""The ways in, by their names in the table."""


if __name__ == "__main__":
    raise SystemExit(main())
