"""Operators on the order of elements, and running sums."""

from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.shapes import normalise_axis
from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define


@define("ArgMax")
def argmax(c: Call) -> SSAValue:
    """`argmax`; with select_last_index, of the axis turned round"""
    return _arg(c, "argmax")


@define("ArgMin")
def argmin(c: Call) -> SSAValue:
    """`argmin`; with select_last_index, of the axis turned round"""
    return _arg(c, "argmin")


def _arg(c: Call, name: str) -> SSAValue:
    x, b = c[0], c.b
    axis, keep = c.axis(x, 0), bool(c.attribute("keepdims", 1))
    if not c.attribute("select_last_index", 0):
        return b.call(name, x, axis=axis, keepdims=keep, T="i64")
    found = b.call(name, b.flip(x, axis=axis), axis=axis, keepdims=keep, T="i64")
    return b.sub(shape(x)[axis] - 1, found)


@define("TopK")
def topk_by_attribute(c: Call) -> Any:
    """`topk`"""
    found, places = c.b.topk(c[0], c.required("k"), axis=c.axis(c[0], -1))
    return found, c.b.cast(places, "i64")


@define("TopK", since=10)
def topk(c: Call) -> Any:
    """`topk`; of the smallest elements, the first of `argsort`"""
    x, b, k = c[0], c.b, int(c.number(1))
    axis = c.axis(x, -1)
    if c.attribute("largest", 1):
        found, places = b.topk(x, k, axis=axis)
    else:
        order = b.argsort(x, axis=axis)
        stops = [k if place == axis else size for place, size in enumerate(shape(x))]
        places = b.slice(order, starts=[0] * rank(x), stops=stops)
        found = b.take_along_axis(x, places, axis=axis)
    return found, b.cast(places, "i64")


@define("CumSum", since=11)
def cumsum(c: Call) -> SSAValue:
    """`cumsum`"""
    return _running(c, "cumsum", 0)


@define("CumProd", since=26)
def cumprod(c: Call) -> SSAValue:
    """`cumprod`"""
    return _running(c, "cumprod", 1)


def _running(c: Call, name: str, first: int) -> SSAValue:
    x, b = c[0], c.b
    axis = normalise_axis(int(c.number(1)), rank(x))
    turned = c.attribute("reverse", 0)
    x = b.flip(x, axis=axis) if turned else x
    if c.attribute("exclusive", 0):
        pads = [[int(place == axis), 0] for place in range(rank(x))]
        shifted = b.pad(x, pads, first if not element(x).is_float else float(first))
        x = b.slice(shifted, starts=[0] * rank(x), stops=list(shape(x)))
    found = b.call(name, x, axis=axis)
    return b.flip(found, axis=axis) if turned else found
