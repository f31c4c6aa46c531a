"""What the commands share about checkpoints: their options, and the line that says what was loaded.

In: a parser, and what was read. Out: `--params`, `--rename` and `--params-dtype`, parameters and
states that are set, and remarks on stderr.
"""

import argparse
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mgn.commands.options.errors import UsageError, say
from mgn.dialects.random_state import RANDOM_STATE
from mgn.driver.quantities import counted
from mgn.runtime.checkpoints.load import LoadReport, named

if TYPE_CHECKING:
    from mgn.executable import Executable
    from mgn.program import Program

DTYPES = ("f64", "f32", "f16", "bf16")


def add_checkpoint_options(add: Callable[..., argparse.Action], default: str) -> None:
    """The options that say where parameters come from."""
    add(
        "--params",
        metavar="PATH",
        help="a checkpoint by external name: .safetensors, .npz, .gguf, .pt, an index of several, "
        f"or a folder of Hugging Face (default: {default})",
    )
    add(
        "--rename",
        action="append",
        metavar="PATTERN=NAME",
        help=r"the names of a checkpoint's arrays here, such as 'transformer.(.*)=\1'; the first "
        "that fits a whole name counts; may be repeated",
    )
    add(
        "--params-dtype",
        choices=DTYPES,
        help="what floats of a checkpoint are rounded to before they become the parameters'",
    )


def check_checkpoint_options(arguments: argparse.Namespace) -> None:
    """UsageError where one of the options has nothing to act on."""
    for option in ("rename", "params_dtype"):
        if getattr(arguments, option) is not None and arguments.params is None:
            raise UsageError(f"--{option.replace('_', '-')} goes with --params")


def set_parameters(target: "Executable | Program", arguments: argparse.Namespace) -> None:
    """Loads the parameters that the options name, or draws them; says which."""
    params = target.params
    if arguments.params is not None:
        target.load_params(arguments.params, arguments.rename, arguments.params_dtype)
        if params.loaded is not None:
            say_loaded(params.loaded)
        return
    missing = params.without_value
    for name in missing:
        params.initialise(name)
    if missing:
        names = ", ".join(missing[:4]) + (" …" if len(missing) > 4 else "")
        say(f"drawn from normal(0, 0.02), having no initialiser: {names} ({len(missing)} in all)")
    drawn_by = len(params) - len(missing) - len(params.given)
    if drawn_by > 0:
        drawn = counted(drawn_by, "parameter")
        say(f"drawn by their initialisers: {drawn}")


def set_states(states: MutableMapping[str, np.ndarray], arguments: argparse.Namespace) -> None:
    """Sets the states that a file names; of a checkpoint of training, those that the graph has. The
    state of random numbers stays. Says where a checkpoint has states that are not asked for.
    """
    from mgn.runtime.checkpoints.opening import open_checkpoint
    from mgn.runtime.checkpoints.training_file import run_of
    from mgn.runtime.weights import load_arrays

    path: str | None = arguments.states or arguments.params
    if path is not None and run_of(Path(path)) is not None:
        arrays = open_checkpoint(path)
        names = [name for name in states if name in arrays and name != RANDOM_STATE]
        if arguments.states is not None:
            for name in names:
                states[name] = arrays[name].read()
        elif names:
            held = counted(len(names), "state")
            say(f"{path}: has {held} of this graph as well: --states {path} sets what it has")
    elif arguments.states is not None:
        for name, array in load_arrays(arguments.states).items():
            states[name] = array


def say_loaded(report: LoadReport) -> None:
    """Says what of a checkpoint was not used, and what was converted."""
    if report.extra:
        left = f"{counted(report.extra, 'array')} ({named(report.unused)})"
        say(f"{report.path}: not used by this graph: {left}")
    for conversion in report.conversions:
        say(f"{report.path}: {conversion}")
