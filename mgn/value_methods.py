"""Operations as methods of the builder's values: `x.sum(axis=1)` is `ops.sum(x, axis=1)`.

In: a value and the name of a method. Out: a function that calls the operation.
"""

from collections.abc import Callable
from typing import Any

from mgn.diagnostics import NoSuchName
from mgn.dialects.mgn.build import suggestion
from mgn.dialects.mgn.operation import OPERATIONS, OperandSpec, OperationSpec
from mgn.plugins.loading import load_plugins

METHODS = {
    "max": "max_reduce",
    "min": "min_reduce",
    "astype": "cast",
    "to": "cast",
    "permute": "transpose",
    "expand": "broadcast_to",
    "unsqueeze": "expand_dims",
}
"""Methods of values that are operations of another name, as in NumPy and PyTorch."""

LISTED = ("reshape", "transpose", "broadcast_to", "tile")
"""Operations whose list may be written as arguments: `x.reshape(2, 3)`."""


def _has_methods(spec: OperationSpec) -> bool:
    """Whether an operation can be a method: its first argument is a value."""
    first = spec.signature[0]
    return isinstance(first, OperandSpec) and not first.variadic


def method_of(value: Any, name: str) -> Callable[..., Any]:
    """An operation as a method of its first operand, `x.sum(axis=1)`. AttributeError where there is
    none of that name.
    """
    spec = OPERATIONS.get(METHODS.get(name, name))
    if spec is None and not name.startswith("_"):
        load_plugins()
        spec = OPERATIONS.get(name)
    if spec is None or not _has_methods(spec):
        known = [item for item, other in OPERATIONS.items() if _has_methods(other)]
        near = suggestion(name, [*known, *METHODS, *dir(type(value))])
        raise NoSuchName(f"a value has no '{name}'{f'; write ops.{name}(…)' if spec else near}")

    def call(*args: Any, **kwargs: Any) -> Any:
        if spec.name in LISTED and args and all(isinstance(item, int) for item in args):
            args = (args,)
        return value.graph.call(spec.name, value, *args, **kwargs)

    call.__name__, call.__doc__ = name, spec.summary
    return call
