"""Models of torchvision and transformers under `torch.compile(…, backend="mgn")`, beside eager.

`python -m benchmarks.torch_models [MODEL …] [--full] [--training] [--inductor] [--one-core]
[--repeats 20] [--seed 0]`

In: which models, all by default, and their size. Out: a row for each model: how far results are
from those in f64, and eager's; in training the same of all gradients, and how many inputs of ReLUs
and the like were so near a kink that mgn's rounding took its other side; kernels; PyTorch's calls;
the seconds of compilation; and the milliseconds of a call, the best of several, each beside the
others. Where a side differs, `benchmarks.contests.kinks` says what gradients are held to.
`--one-core` keeps all to one core, and times what a call and the compilation take of the processor:
others on the machine change that less. Needs torch, torchvision and transformers.
"""

import argparse
import copy
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch

import mgn.torch  # noqa: F401
from benchmarks.contests import kinks
from benchmarks.contests.torch_model_cases import MODELS, Case
from benchmarks.one_core import Clock, on_one_core
from mgn.torch import backend

MOST, ROUNDINGS = 4.0, 1e-5
"""How many times as far as eager's a result may be from the exact one; or so far."""


DROPPING = {"Dropout", "StochasticDepth"}
"""The classes of layers that draw what they drop."""


class Run(NamedTuple):
    """A result, its gradients by name, and how to do it again."""

    result: torch.Tensor
    gradients: dict[str, torch.Tensor]
    again: Callable[[], Any]


class Row(NamedTuple):
    """The figures of a model."""

    error: float
    eager_error: float
    sides: int
    kernels: int
    calls: int
    compile_seconds: float
    milliseconds: list[float]


def doubled(case: Case) -> Case:
    """A case in f64."""
    inputs = {
        name: item.double() if item.is_floating_point() else item
        for name, item in case.inputs.items()
    }
    return Case(copy.deepcopy(case.model).double(), inputs)


def run(model: Any, case: Case, is_training: bool, watch: Any = None) -> Run:
    """One call of a model, and in training the gradients of the mean square of its result."""

    def call() -> torch.Tensor:
        if not is_training:
            with torch.no_grad():
                return model(**case.inputs)
        for item in case.model.parameters():
            item.grad = None
        result = model(**case.inputs)
        (result * result).mean().backward()
        return result.detach()

    with watch or nullcontext():
        result = call()
    pairs = case.model.named_parameters()
    gradients = {name: item.grad for name, item in pairs if item.grad is not None}
    return Run(result, gradients, call)


def distance(found: Run, exact: Run) -> float:
    """How far a run is from the exact one, beside the largest of each tensor: the worst of all;
    gradients that are nothing but rounding count beside the largest gradient.
    """
    pairs = [(found.result, exact.result, float(exact.result.abs().max()))]
    largest = max((float(item.abs().max()) for item in exact.gradients.values()), default=0.0)
    for name, item in exact.gradients.items():
        own = float(item.abs().max())
        pairs.append((found.gradients[name], item, max(own, 1e-3 * largest)))
    return max(float((one - other).abs().max()) / size for one, other, size in pairs)


def on_its_side(found: Run, exact: Run, case: Case) -> tuple[Run, int]:
    """The exact run on the side of the kinks that a run took, and how many places that moves."""

    def watched(given: Case) -> kinks.Watched:
        return lambda watch: run(given.model, given, True, watch).gradients

    own = Case(copy.deepcopy(case.model), case.inputs)
    gradients, sides = kinks.on_the_side_of(found.gradients, watched(doubled(case)), watched(own))
    return exact._replace(gradients=gradients), sides


def best(calls: Sequence[Callable[[], Any]], repeats: int, clock: Clock) -> list[float]:
    """The milliseconds of the best of several runs, one after the other in turn."""
    least = [float("inf")] * len(calls)
    for _ in range(repeats):
        for number, call in enumerate(calls):
            start = clock()
            call()
            least[number] = min(least[number], 1e3 * (clock() - start))
    return least


def measure(
    case: Case,
    is_training: bool,
    with_inductor: bool,
    repeats: int,
    clock: Clock = time.perf_counter,
) -> Row:
    """The figures of a model, in which nothing is dropped so that runs can be compared."""
    torch._dynamo.reset()
    backend.built.clear()
    for layer in case.model.modules():
        if type(layer).__name__ in DROPPING:
            layer.p = 0.0
    case.model.train(is_training)
    exact = run((wide := doubled(case)).model, wide, is_training)
    own = Case(copy.deepcopy(case.model), case.inputs)
    eager = run(own.model, own, is_training)
    options = {} if is_training else {"freeze": True}
    start = clock()
    compiled = torch.compile(case.model, backend="mgn", options=options)
    found = run(compiled, case, is_training)
    seconds = clock() - start
    calls = [found.again, eager.again]
    if with_inductor:
        other = Case(copy.deepcopy(case.model), case.inputs)
        calls.append(run(torch.compile(other.model), other, is_training).again)
    error, eager_error, sides = distance(found, exact), distance(eager, exact), 0
    bound = max(MOST * eager_error, ROUNDINGS)
    if error > bound and is_training:
        exact, sides = on_its_side(found, exact, case)
        error = distance(found, exact)
    if error > bound:
        raise SystemExit(f"wrong result: {error:.2g} from the exact one, eager {eager_error:.2g}")
    parts = [part for item in backend.built for part in item.parts]
    return Row(
        error,
        eager_error,
        sides,
        sum(len(part.executable.report.kernels) for part in parts),
        sum(len(made) for item in backend.built for made, _ in item.steps),
        seconds,
        best(calls, repeats, clock),
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--full", action="store_true", help="published sizes")
    parser.add_argument("--training", action="store_true", help="forward and backward")
    parser.add_argument("--inductor", action="store_true", help="beside Inductor, too")
    parser.add_argument("--one-core", action="store_true", help="processor time, on one core")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of weights and inputs")
    arguments = parser.parse_args()
    clock = on_one_core() if arguments.one_core else time.perf_counter
    warnings.filterwarnings("ignore", message="Non-empty compiler output")
    times = ["mgn", "eager", *(["inductor"] if arguments.inductor else [])]
    head = ["model", "error", "eager's", "other sides", "kernels", "calls", "compiled in s", *times]
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for name in arguments.models or MODELS:
        torch.manual_seed(arguments.seed)
        case = MODELS[name](not arguments.full)
        row = measure(case, arguments.training, arguments.inductor, arguments.repeats, clock)
        figures = [f"{row.error:.1e}", f"{row.eager_error:.1e}"]
        figures += [str(item) for item in (row.sides, row.kernels, row.calls)]
        figures += [f"{row.compile_seconds:.1f}", *(f"{item:.2f}" for item in row.milliseconds)]
        print(f"| {name} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
