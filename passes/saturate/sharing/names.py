"""Names of values and operations that graphs have in common which differ in sizes alone.

In: a graph, an e-node's signature, or a leaf. Out: texts without the sizes, the same in every
process. Names decide nothing: rules, kernels and prices are worked out for each size.
"""

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    TensorType,
    i1,
)
from xdsl.ir import Attribute

from mgn.dialects.mgn.structure import GraphOp
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.encoding.facts import Leaf

WITHOUT_SIZES = frozenset({"axis", "perm"})
"""Whole numbers among attributes that are no sizes."""


def structure_of(graph: GraphOp) -> str:
    """A digest of a graph without its sizes."""
    values: dict[int, int] = {}
    known: dict[int, str] = {}

    def said(item: Attribute) -> str:
        """The same for one object, which the graph keeps alive."""
        text = known.get(id(item))
        if text is None:
            text = known[id(item)] = _sizeless(item)
        return text

    rows = [" ".join(said(item.type) for item in graph.block.args), str(graph.overwritten)]
    for argument in graph.block.args:
        values[id(argument)] = len(values)
    for op in graph.block.ops:
        operands = " ".join(str(values[id(operand)]) for operand in op.operands)
        for result in op.results:
            values[id(result)] = len(values)
        types = " ".join(said(result.type) for result in op.results)
        rows.append(f"{op.name} {operands} {_attributes(op.properties.items(), said)} {types}")
    return hashlib.sha256("\n".join(rows).encode("utf-8", "surrogatepass")).hexdigest()


@lru_cache(maxsize=4096)
def operation_name(signature: Signature) -> str:
    """An e-node without its operands and sizes."""
    attributes = _attributes(signature.properties, _sizeless)
    return f"{signature.name} {attributes} {_sizeless(signature.type)}"


def leaf_name(leaf: Leaf) -> str:
    """What a leaf is, but for its sizes: numbers that a program is written with may be some."""
    key = "" if leaf.kind == "constant" else leaf.key
    return f"{leaf.kind} {key} {_sizeless(leaf.type)}"


def _attributes(items: Iterable[tuple[str, Attribute]], said: Callable[[Attribute], str]) -> str:
    return ", ".join(
        f"{name} = {item if name in WITHOUT_SIZES else said(item)}" for name, item in items
    )


def _sizeless(item: Attribute) -> str:
    """What is left of a type or an attribute without sizes."""
    if isinstance(item, TensorType):
        return f"{len(item.get_shape())} {element_of(item).name}"
    if isinstance(item, DenseIntOrFPElementsAttr):
        return _sizeless(item.type)
    if isinstance(item, DenseArrayBase | ArrayAttr):
        return f"{type(item).__name__} of {len(item)}"
    if isinstance(item, FloatAttr) or (isinstance(item, IntegerAttr) and item.type != i1):
        return "number"
    return str(item)
