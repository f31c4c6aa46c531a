"""Arguments of the public calls that are of another type than the call takes.

In: a call's name and its arguments. Out: nothing, or a TypeError that says what was expected.
"""

from collections.abc import Mapping
from os import PathLike

from mgn.diagnostics import WrongType
from mgn.dialects.kernel.device import Device

_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "text": ((str,), "the text of a program"),
    "name": ((str,), "a file's name for messages"),
    "path": ((str, PathLike), "a path"),
    "graph": ((str, type(None)), "the name of a graph"),
    "graphs": ((str, list, tuple, type(None)), "the name of a graph, or a list of names"),
    "dims": ((Mapping, type(None)), "sizes by name, such as {'B': 32}"),
    "shapes": ((Mapping, type(None)), "shapes by input, such as {'x': [1, 3, 224, 224]}"),
    "constants": ((Mapping, type(None)), "arrays by input, such as {'axes': [1]}"),
    "device": ((str,), "a selector such as 'auto', 'cpu' or '0:0'"),
    "description": ((str, Device), "the name of a device description, or one"),
    "mode": ((str,), "'inference' or 'training'"),
    "loss": ((str,), "the name of an output"),
    "seed": ((int,), "a whole number"),
    "target": ((str,), "'opencl', 'spirv' or 'auto'"),
    "precision": ((str,), "'f32', 'tf32', 'bf16', 'f16' or 'bf16-stored'"),
    "tune": ((int, float), "a number of seconds"),
    "times": ((int,), "how often, a whole number"),
    "memory": ((int, str), "a size such as '4GiB', or a number of bytes"),
    "prepare": ((bool,), "True or False"),
    "resident": ((str,), "'auto' or 'off'"),
    "state": ((Mapping,), "arrays by name, as state() gives them"),
    "metric": ((str, type(None)), "a call such as 'accuracy(logits, labels)'"),
    "save": ((str, PathLike, type(None)), "a path"),
    "log": ((str, PathLike, type(None)), "a path"),
    "curves": ((str, PathLike, type(None)), "a path"),
    "tensorboard": ((str, PathLike, type(None)), "a path"),
}
"""What the arguments of the calls may be, and how that is said."""


_SHOWN = {"description": "device", "graphs": "graph"}
"""Arguments that a call has by another name."""


def check_arguments(call: str, **arguments: object) -> None:
    """TypeError where an argument of a call is of another type."""
    for name, value in arguments.items():
        kinds, wanted = _KINDS[name]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            shown = _SHOWN.get(name, name)
            raise WrongType(f"{call}: '{shown}' takes {wanted}, not {_said(value)}")


def check_saturation(call: str, value: object) -> None:
    """The same for `saturation`, whose type is not imported where there is none."""
    if value is None:
        return
    from mgn.passes.saturate import SaturateOptions

    if not isinstance(value, SaturateOptions):
        raise WrongType(
            f"{call}: 'saturation' takes SaturateOptions, not {_said(value)}; with "
            "'from mgn.passes.saturate import RuleClass, SaturateOptions' it is such as "
            "SaturateOptions(classes=frozenset({RuleClass.EXACT}), time_budget=2.0)"
        )


def _said(value: object) -> str:
    return "None" if value is None else type(value).__name__
