"""Makes the functions of `mgn.ops` from the table of operations.

In: an `OperationSpec`. Out: a Python function with the operation's signature and summary.
"""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from mgn.builder import graph_of
from mgn.dialects.mgn.attributes import REQUIRED
from mgn.dialects.mgn.operation import AttributeSpec, OperandSpec, OperationSpec


def operation_function(spec: OperationSpec) -> Callable[..., Any]:
    """The function that adds an operation to the graph of its operands."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return graph_of([*args, *kwargs.values()]).call(spec.name, *args, **kwargs)

    call.__name__ = call.__qualname__ = spec.name
    call.__module__ = "mgn.ops"
    call.__doc__ = spec.summary
    vars(call)["__signature__"] = signature_of(spec)
    return call


def signature_of(spec: OperationSpec) -> Signature:
    """The Python signature: what follows a default and has none itself is keyword-only."""
    parameters: list[Parameter] = []
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD
    for item in spec.signature:
        if isinstance(item, OperandSpec) and item.starred:
            parameters.append(Parameter(item.name, Parameter.VAR_POSITIONAL))
            kind = Parameter.KEYWORD_ONLY
            continue
        default = _default(item)
        defaults = [p for p in parameters if p.default is not Parameter.empty]
        if default is Parameter.empty and defaults:
            kind = Parameter.KEYWORD_ONLY
        parameters.append(Parameter(item.name, kind, default=default))
    return Signature(parameters)


def _default(item: OperandSpec | AttributeSpec) -> Any:
    if isinstance(item, AttributeSpec):
        return Parameter.empty if item.default is REQUIRED else item.default
    return item.default if item.optional or item.default is not None else Parameter.empty
