"""PyTorch itself, which is an extra: it is loaded when it is first needed.

In: the name of one of its modules. Out: the module, or an MgnError that names the extra.
"""

import sys
from importlib import import_module
from typing import Any

from mgn.diagnostics import MgnError


def library(name: str = "torch") -> Any:
    """A module of PyTorch. MgnError where PyTorch is not installed."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    try:
        return import_module(name)
    except ImportError as error:
        raise MgnError(
            "PyTorch is not installed; `pip install 'mgn-compiler[torch]'` brings it"
        ) from error
