"""The dialects that mgn's commands and calls understand, each loaded when a program first uses it.

In: nothing, or a dialect's name. Out: an xDSL context with all of them registered.
"""

import importlib

from xdsl.context import Context
from xdsl.ir import Dialect

DIALECTS: dict[str, tuple[str, str]] = {
    "builtin": ("xdsl.dialects.builtin", "Builtin"),
    "mgn": ("mgn.dialects.mgn", "Mgn"),
    "fusion": ("mgn.dialects.fusion", "Fusion"),
    "kernel": ("mgn.dialects.kernel", "Kernel"),
    "plan": ("mgn.dialects.plan", "Plan"),
    "spirv": ("mgn.dialects.spirv", "Spirv"),
    "arith": ("xdsl.dialects.arith", "Arith"),
    "math": ("xdsl.dialects.math", "Math"),
    "memref": ("xdsl.dialects.memref", "MemRef"),
    "scf": ("xdsl.dialects.scf", "Scf"),
    "vector": ("xdsl.dialects.vector", "Vector"),
}
"""Dialects by name: the module, and the name in it."""


def load_dialect(name: str) -> Dialect:
    """The dialect of that name; that of tensors holds the user's operations too."""
    module, attribute = DIALECTS[name]
    found: Dialect = getattr(importlib.import_module(module), attribute)
    if name != "mgn":
        return found
    from mgn.dialects.mgn.structure import MgnConstants
    from mgn.dialects.mgn.user_operations import user_classes

    operations = [*found.operations, *user_classes()]
    return Dialect(name, operations, list(found.attributes), [MgnConstants()])


def make_context() -> Context:
    """A context in which every dialect of the table is registered."""
    context = Context()
    for name in DIALECTS:
        context.register_dialect(name, lambda name=name: load_dialect(name))
    return context
