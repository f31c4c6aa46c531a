"""mgn: a tensor compiler for any OpenCL device, in which an e-graph decides.

In: a program in the `.mgn` language, or built in Python. Out: kernels, and arrays.

Names are imported when they are first used, so that `import mgn` is quick and needs no OpenCL.
"""

import importlib
from typing import TYPE_CHECKING, Any

from mgn.version import DISTRIBUTION
from mgn.version import VERSION as __version__

if TYPE_CHECKING:
    from mgn.api import (
        Module,
        Optimized,
        compile,
        from_onnx,
        optimize,
        parse,
        parse_file,
    )
    from mgn.builder import graph
    from mgn.diagnostics import Diagnostic, DiagnosticsError, MgnError
    from mgn.dialects.block_formats import pack_blocks, unpack_blocks
    from mgn.driver.own_passes import forget_pass, register_pass
    from mgn.driver.report import OptimizeReport
    from mgn.executable import Executable
    from mgn.program import Program
    from mgn.runtime.packages.load import load_package
    from mgn.text.generation import generate
    from mgn.text.writing import generate_text
    from mgn.torch import from_torch
    from mgn.training.optimisers import schedules
    from mgn.training.optimisers.matrix import Adafactor, Muon
    from mgn.training.optimisers.optimisers import (
        SGD,
        Adam,
        AdamW,
        Lion,
        Optimizer,
        RMSProp,
        Update,
    )
    from mgn.training.step.loss_scale import LossScale
    from mgn.training.trainer import Trainer

__all__ = [
    "SGD",
    "Adafactor",
    "Adam",
    "AdamW",
    "Diagnostic",
    "DiagnosticsError",
    "Executable",
    "Lion",
    "LossScale",
    "MgnError",
    "Module",
    "Muon",
    "OptimizeReport",
    "Optimized",
    "Optimizer",
    "Program",
    "RMSProp",
    "Trainer",
    "Update",
    "__version__",
    "compile",
    "forget_pass",
    "from_onnx",
    "from_torch",
    "generate",
    "generate_text",
    "graph",
    "load_package",
    "optimize",
    "pack_blocks",
    "parse",
    "parse_file",
    "register_pass",
    "schedules",
    "unpack_blocks",
]

_HOMES = {
    **dict.fromkeys(
        ("Module", "Optimized", "compile", "from_onnx", "optimize", "parse", "parse_file"),
        "mgn.api",
    ),
    **dict.fromkeys(("Diagnostic", "DiagnosticsError", "MgnError"), "mgn.diagnostics"),
    "Executable": "mgn.executable",
    "OptimizeReport": "mgn.driver.report",
    **dict.fromkeys(("forget_pass", "register_pass"), "mgn.driver.own_passes"),
    "Program": "mgn.program",
    "from_torch": "mgn.torch",
    "graph": "mgn.builder",
    **dict.fromkeys(("pack_blocks", "unpack_blocks"), "mgn.dialects.block_formats"),
    "load_package": "mgn.runtime.packages.load",
    **dict.fromkeys(
        ("SGD", "Adam", "AdamW", "Lion", "Optimizer", "RMSProp", "Update"),
        "mgn.training.optimisers.optimisers",
    ),
    **dict.fromkeys(("Adafactor", "Muon"), "mgn.training.optimisers.matrix"),
    "LossScale": "mgn.training.step.loss_scale",
    "Trainer": "mgn.training.trainer",
    "generate": "mgn.text.generation",
    "generate_text": "mgn.text.writing",
}
_SUBPACKAGES = {
    **{
        name: f"mgn.{name}"
        for name in (
            "codegen",
            "dialects",
            "frontend",
            "nn",
            "onnx_backend",
            "ops",
            "passes",
            "runtime",
            "torch",
        )
    },
    "schedules": "mgn.training.optimisers.schedules",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(_module(_HOMES[name], name), name)
    if name in _SUBPACKAGES:
        return _module(_SUBPACKAGES[name], name)
    from mgn.diagnostics import NoSuchName

    raise NoSuchName(f"module 'mgn' has no attribute '{name}'")


def _module(module: str, name: str) -> Any:
    """A module of mgn. MgnError where what is installed only runs packages."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        from mgn.diagnostics import MgnError

        raise MgnError(
            f"{DISTRIBUTION} runs packages, and has no mgn.{name}; `pip install mgn-compiler` "
            f"in the place of {DISTRIBUTION} brings the compiler"
        ) from None


def __dir__() -> list[str]:
    return sorted({*__all__, "nn", "ops"})
