"""`mgn-train`: trains the parameters of a graph.

In: a `.mgn` or `.mlir` file whose graph gives a loss, and files of arrays. Out: the last values of
the loss and the metric on stdout; a progress bar or lines on stderr; checkpoints and logs, where
asked for.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from mgn.commands.options.errors import FAILURE, UsageError, guarded
from mgn.commands.options.parsers import (
    add_memory_option,
    add_program_options,
    add_resident_option,
    make_tidy_parser,
)
from mgn.driver.precision import OPERANDS

EXAMPLES = """\
examples:
  mgn-train net.mgn --data train.npz --batch 64 --epochs 10 --lr 1e-3
  mgn-train net.mgn --data train.npz --eval test.npz --metric 'accuracy(logits, labels)'
  mgn-train net.mgn --data train.npz --optimizer 'adamw(weight_decay=0.05)' --schedule cosine
  mgn-train net.mgn --data train.npz --save net.safetensors --every 500 --keep 3
  mgn-train net.mgn --data train.npz --save net.safetensors --resume   goes on, bit for bit
  mgn-train lm.mgn --data text.txt --tokenizer tokenizer.json --steps 2000
  mgn-train net.mgn --data train.npz --params base.safetensors --trained lora_ --drawn lora_
  mgn-train net.mgn --data train.npz --log net.jsonl --curves net.png --tensorboard runs/net
  mgn-train net.mgn --data train.npz --batch 16 --accumulate 4    steps of 64 in the memory of 16
  mgn-train net.mgn --data train.npz --precision f16 --loss-scale dynamic
  mgn-train net.mgn --data train.npz --check-finite     names what made the first NaN
  mpiexec -n 4 mgn-train net.mgn --data train.npz --batch 64     four processes, 16 examples each
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command, on the process's own arguments where none are given. Returns the exit status."""
    return guarded(lambda: _run(make_parser().parse_args(argv)))


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = make_tidy_parser("mgn-train", "Train a graph on an OpenCL device.", EXAMPLES)
    add = parser.add_argument
    add("file", nargs="?", help="a .mgn or .mlir file; - is stdin")
    add("-f", "--frontend", choices=["mgn", "mlir"], help="the language of the file")
    add = add_program_options(parser, "the graph to train (default: the one that gives the loss)")
    add("--loss", default="loss", metavar="NAME", help="the result to make small (default: loss)")
    add("--precision", choices=OPERANDS, default="f32", help="what products may round to")
    _add_data(parser)
    _add_steps(parser)
    _add_files(parser)
    _add_processes(parser)
    return parser


def _add_data(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("data").add_argument
    add("--data", metavar="FILE", help=".npz or .safetensors: examples by input name; .txt: a text")
    add("--tokenizer", metavar="PATH", help="of Hugging Face: makes tokens of a text (extra: text)")
    add("--batch", type=int, metavar="N", help="examples of a step: the inputs' first dimension")
    add("--eval", metavar="FILE", help="examples to evaluate on")
    add("--eval-graph", metavar="NAME", help="what evaluations compute (default: the same graph)")
    add("--metric", metavar="CALL", help="such as 'accuracy(logits, labels)'")
    add("--params", metavar="FILE", help="begin with these parameters, not with drawn ones")
    patterns: dict[str, Any] = {"action": "append", "metavar": "PATTERN", "default": []}
    add("--drawn", **patterns, help="parameters that are drawn, and not taken from --params")
    add("--trained", **patterns, help="train the parameters in whose names this is found, alone")
    add("--frozen", **patterns, help="do not train these; patterns are regular expressions")
    add("--seed", type=int, default=0, metavar="N", help="for parameters, shuffles and dropout")


def _add_steps(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("steps").add_argument
    add("--optimizer", default="adamw", metavar="NAME", help="adamw, 'sgd(momentum=0.9)', …")
    add("--lr", type=float, metavar="RATE", help="the learning rate (default: the optimiser's)")
    add(
        "--schedule",
        choices=["constant", "linear", "cosine"],
        default="constant",
        help="how the rate falls to 0 by the last step (default: constant, not at all)",
    )
    add("--warmup", type=int, default=0, metavar="N", help="steps in which the rate rises")
    add("--clip-norm", type=float, metavar="NORM", help="the largest norm of all gradients")
    add("--accumulate", type=int, default=1, metavar="N", help="batches of a step (default: 1)")
    add(
        "--loss-scale",
        default="auto",
        metavar="SCALE",
        help="auto (dynamic in f16), dynamic, none or a number",
    )
    add("--masters", action="store_true", help="move parameters of half precision in f32")
    add("--epochs", type=int, metavar="N", help="how often each example is seen (default: 1)")
    add("--steps", type=int, metavar="N", help="how many steps there are, instead of epochs")
    add("--every", type=int, metavar="N", help="evaluate and save after N steps, not each epoch")
    add("--patience", type=int, metavar="N", help="end after N evaluations without a better one")
    add("--check-finite", action="store_true", help="name what made the first NaN or infinity")
    add_memory_option(add)
    add("--device", default="auto", metavar="SELECTOR", help="auto, cpu, gpu, 0:1, part of a name")
    add_resident_option(add)


def _add_files(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("files").add_argument
    add("--save", metavar="FILE.safetensors", help="checkpoints: always the last whole one")
    add("--keep", type=int, metavar="N", help="keep the last N under names of their own")
    add("--keep-best", action="store_true", help="keep the one with the best evaluation as well")
    add("--resume", action="store_true", help="go on with the checkpoint, if there is one")
    add("--save-not-finite", action="store_true", help="save NaN and infinities too")
    add("--overwrite", action="store_true", help="take the place of another run's files")
    add("--save-params", metavar="FILE.safetensors", help="all parameters, as they are then")
    add("--save-trained", metavar="FILE.safetensors", help="those alone that steps changed")
    add("--log", metavar="FILE.jsonl", help="a line of JSON for each step and evaluation")
    add("--norms", action="store_true", help="log the norm of each parameter")
    add("--curves", metavar="FILE.png", help="draw loss and metric (extra: curves)")
    add("--tensorboard", metavar="FOLDER", help="write event files (extra: tensorboard)")
    add("--explain", metavar="FILE.html", help="a page on the kernels of a step")
    add("--no-progress", action="store_true", help="no bar, on a terminal neither")


def _add_processes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group(
        "several processes, by mpiexec (extra: distributed)"
    ).add_argument
    add(
        "--zero",
        type=int,
        choices=[0, 1],
        default=0,
        help="1: each process keeps the optimiser's states of its share of the parameters alone",
    )
    add(
        "--bucket",
        type=float,
        default=16.0,
        metavar="MIB",
        help="how many MiB of gradients leave together (default: 16)",
    )


_NEEDED = {
    "patience": ("eval",),
    "eval_graph": ("eval",),
    "keep": ("save",),
    "keep_best": ("save",),
    "save_not_finite": ("save", "save_params", "save_trained"),
    "norms": ("log", "tensorboard"),
}
"""Options that do nothing without one of some others."""


def _run(arguments: argparse.Namespace) -> int:
    if arguments.file is None:
        raise UsageError("which program? 'mgn-train --help' shows examples")
    if arguments.data is None:
        raise UsageError("--data names a file of examples, by the names of the graph's inputs")
    if arguments.epochs is not None and arguments.steps is not None:
        raise UsageError("--epochs or --steps says how long it takes, not both")
    if arguments.seed < 0:
        raise UsageError("--seed takes a number of at least 0")
    for name in ("batch", "epochs", "steps", "every", "patience", "keep", "accumulate"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} takes a whole number of at least 1")
    if arguments.drawn and not arguments.params:
        raise UsageError("--drawn goes with --params: without it all parameters are drawn")
    for name, needed in _NEEDED.items():
        option, wanted = name.replace("_", "-"), [item.replace("_", "-") for item in needed]
        if getattr(arguments, name) and not any(getattr(arguments, item) for item in needed):
            raise UsageError(f"--{option} goes with --{' or --'.join(wanted)}")
    if arguments.warmup < 0:
        raise UsageError("--warmup takes a number of steps")
    from mgn.commands.actions.training import train

    return 0 if train(arguments) else FAILURE


if __name__ == "__main__":
    sys.exit(main())
