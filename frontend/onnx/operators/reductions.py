"""Reductions over axes."""

from collections.abc import Callable
from typing import Any

from xdsl.ir import SSAValue

from mgn.dialects.types import Family
from mgn.frontend.onnx.core.call import Call, element, rank
from mgn.frontend.onnx.core.operator import define

Reduce = Callable[[Call, SSAValue, dict[str, Any]], SSAValue]


def _extreme(name: str) -> Reduce:
    def reduce(c: Call, x: SSAValue, over: dict[str, Any]) -> SSAValue:
        if element(x).family is not Family.BOOL:
            return c.b.call(name, x, **over)
        return c.b.cast(c.b.call(name, c.b.cast(x, "u8"), **over), "bool")

    return reduce


def _mean(c: Call, x: SSAValue, over: dict[str, Any]) -> SSAValue:
    if element(x).is_float:
        return c.b.mean(x, **over)
    return c.b.cast(c.b.mean(c.b.cast(x, "f64"), **over), element(x).name)


def _root(c: Call, x: SSAValue, over: dict[str, Any]) -> SSAValue:
    total = c.b.sum(c.b.mul(x, x), **over)
    if element(x).is_float:
        return c.b.sqrt(total)
    return c.b.cast(c.b.sqrt(c.b.cast(total, "f64")), element(x).name)


def _log_sum(c: Call, x: SSAValue, over: dict[str, Any]) -> SSAValue:
    return c.b.log(c.b.sum(x, **over))


REDUCTIONS: dict[str, tuple[Reduce, str]] = {
    "ReduceSum": (lambda c, x, over: c.b.sum(x, **over), "`sum`"),
    "ReduceMean": (_mean, "`mean`"),
    "ReduceProd": (lambda c, x, over: c.b.prod(x, **over), "`prod`"),
    "ReduceMax": (_extreme("max_reduce"), "`max_reduce`"),
    "ReduceMin": (_extreme("min_reduce"), "`min_reduce`"),
    "ReduceL1": (lambda c, x, over: c.b.sum(c.b.abs(x), **over), "`sum` of `abs`"),
    "ReduceL2": (_root, "`sqrt` of the `sum` of squares"),
    "ReduceSumSquare": (lambda c, x, over: c.b.sum(c.b.mul(x, x), **over), "`sum` of squares"),
    "ReduceLogSum": (_log_sum, "`log` of `sum`"),
    "ReduceLogSumExp": (lambda c, x, over: c.b.logsumexp(x, **over), "`logsumexp`"),
}
"""The reductions, and what is said of each."""


def _operator(reduce: Reduce, said: str, moved: int) -> Callable[[Call], SSAValue]:
    """`moved`: the version from which the axes are an input."""

    def function(c: Call) -> SSAValue:
        axes = c.ints_of("axes", 1, moved=moved)
        if not axes and c.attribute("noop_with_empty_axes", 0):
            return reduce(c, c[0], {"axis": [], "keepdims": True})
        keep = bool(c.attribute("keepdims", 1))
        every = list(range(rank(c[0])))
        return reduce(c, c[0], {"axis": axes or every, "keepdims": keep})

    function.__doc__ = said
    return function


for _name, (_reduce, _said) in REDUCTIONS.items():
    define(_name)(_operator(_reduce, _said, 13 if _name == "ReduceSum" else 18))
