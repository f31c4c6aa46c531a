"""Every operation of the language as a Python function, for graphs that are being built.

In: values of a graph (`g.input`, results of other operations), numbers, arrays. Out: values.

    y = ops.softmax(ops.matmul(x, w, transpose_b=True), axis=-1)

The functions are made from the table of operations; `help(ops.softmax)` shows one.
"""

from typing import Any, cast

from mgn.builder import Value, current_graph, graph_of
from mgn.builder_arguments import fail
from mgn.diagnostics import NoSuchName
from mgn.dialects.mgn import OPERATIONS
from mgn.dialects.mgn.build import suggestion
from mgn.dialects.mgn.gradients.forward import emit_jvp
from mgn.op_functions import operation_function
from mgn.plugins.loading import load_plugins

__all__ = ["constant", "grad", "jvp", *OPERATIONS]  # pyright: ignore[reportUnsupportedDunderAll]


def constant(value: Any, T: Any = None) -> Value:
    """`y = ops.constant([[1.0, 2.0]], T="f32")`: a tensor from numbers, lists or an array."""
    return current_graph().constant(value, T)


def grad(loss: Value, values: Any) -> Any:
    """`g = ops.grad(loss, x)` or `gx, gw = ops.grad(loss, [x, w])`: the gradients of a scalar."""
    return graph_of([loss]).grad(loss, values)


def jvp(y: Value, x: Any, v: Any) -> Value:
    """`t = ops.jvp(y, x, v)`: how y changes where x goes in the direction v. Both may be lists."""
    listed = [list(cast("list[Any]", a)) if isinstance(a, list | tuple) else [a] for a in (x, v)]
    graph = graph_of([y])
    for value in (y, *listed[0], *listed[1]):
        if not isinstance(value, Value) or value.graph is not graph:
            fail("jvp takes values of one graph: a value, values, as many directions")
    values, directions = ([item.value for item in items] for items in listed)
    return graph.emit(lambda emitter: emit_jvp(emitter, y.value, values, directions))


def __getattr__(name: str) -> Any:
    if name not in OPERATIONS and not name.startswith("_"):
        load_plugins()
    if name in OPERATIONS:
        return operation_function(OPERATIONS[name])
    raise NoSuchName(f"there is no operation '{name}'{suggestion(name, list(OPERATIONS))}")


globals().update({name: operation_function(spec) for name, spec in OPERATIONS.items()})
