"""Floats that a graph with dynamic sizes has to know when it is compiled, such as the epsilon of a
norm.

In: a graph as Dynamo captures it, in which a float is a tensor of one element, and `item` its
value. Out: which arguments have to be known: all but those that nothing but arithmetic with tensors
takes, for which they stay operands.
"""

import operator
from typing import Any

from mgn.frontend.torch.library import library

ARITHMETIC = frozenset((operator.add, operator.sub, operator.mul, operator.truediv, operator.neg))


def known_numbers(graph: Any) -> frozenset[int]:
    """The places of these arguments."""
    places = graph.graph.find_nodes(op="placeholder")
    return frozenset(
        number
        for number, node in enumerate(places)
        if _is_float(node) and not all(map(_is_operand, items_of(node)))
    )


def items_of(node: Any) -> list[Any]:
    """The nodes that are the value of a float."""
    return [user for user in node.users if user.op == "call_method" and user.target == "item"]


def _is_float(node: Any) -> bool:
    """Whether an argument is a float of Python, which is read as one alone."""
    argument = node.meta.get("grapharg")
    is_float = argument is not None and argument.pass_arg_as_tensor and not argument.is_tensor
    return is_float and len(items_of(node)) == len(node.users)


def _is_operand(item: Any) -> bool:
    """Whether a number goes into tensors by arithmetic alone."""
    tensor = library().Tensor
    return all(
        user.op == "call_function"
        and user.target in ARITHMETIC
        and (isinstance(user.meta.get("example_value"), tensor) or _is_operand(user))
        for user in item.users
    )
