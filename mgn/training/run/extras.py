"""Packages that only some runs need.

In: a module's name and the extra of mgn that brings it. Out: the module, or an error that names the
extra.
"""

import importlib
from types import ModuleType

from mgn.diagnostics import MgnError


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """A module of an extra. MgnError, with what to install, where it is not there."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise MgnError(
            f"{purpose} needs {package}: python -m pip install 'mgn-compiler[{extra}]'"
        ) from None
