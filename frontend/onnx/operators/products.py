"""Products of matrices, and what is made of them."""

import math
from functools import reduce

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, rank, shape
from mgn.frontend.onnx.core.operator import define


@define("MatMul")
def matmul(c: Call) -> SSAValue:
    """`matmul`"""
    return product(c, c[0], c[1])


def product(c: Call, x: SSAValue, y: SSAValue) -> SSAValue:
    """The product as NumPy has it, of vectors too."""
    b = c.b
    left, right = rank(x) == 1, rank(y) == 1
    if not (left or right):
        return b.matmul(x, y)
    x = b.expand_dims(x, 0) if left else x
    y = b.expand_dims(y, 1) if right else y
    found = b.matmul(x, y)
    axes = [axis for axis, is_new in ((-2, left), (-1, right)) if is_new]
    return b.squeeze(found, axis=axes)


@define("Gemm")
def gemm(c: Call) -> SSAValue:
    """`matmul` with its transposes, scaled, and the sum with C"""
    b, x, y = c.b, c[0], c[1]
    alpha, beta = c.attribute("alpha", 1.0), c.attribute("beta", 1.0)
    flags = {f"transpose_{key}": bool(c.attribute(f"trans{key.upper()}", 0)) for key in "ab"}
    found = b.matmul(x, y, **flags)
    if alpha != 1.0:
        found = b.mul(found, c.like(alpha, found))
    if c.get(2) is None:
        return found
    bias = c[2] if beta == 1.0 else b.mul(c[2], c.like(beta, c[2]))
    return b.add(found, bias)


@define("Einsum", since=12)
def einsum(c: Call) -> SSAValue:
    """`einsum`"""
    equation = c.required("equation").replace(" ", "")
    return c.b.einsum(equation, *(c[number] for number in range(len(c))))


@define("Det", since=11)
def determinant(c: Call) -> SSAValue:
    """sums of products of elements, by Laplace's expansion"""
    x, b = c[0], c.b
    size = shape(x)[-1]
    if size > 4:
        c.fail("matrices larger than 4 × 4 are not supported")
    lead = list(shape(x)[:-2])

    def at(row: int, column: int) -> SSAValue:
        starts = [*[0] * len(lead), row, column]
        cut = b.slice(x, starts=starts, stops=[*lead, row + 1, column + 1])
        return b.reshape(cut, lead)

    def minor(row: int, columns: list[int]) -> SSAValue:
        if len(columns) == 1:
            return at(row, columns[0])
        terms: list[SSAValue] = []
        for place, column in enumerate(columns):
            rest = [*columns[:place], *columns[place + 1 :]]
            term = b.mul(at(row, column), minor(row + 1, rest))
            terms.append(b.neg(term) if place % 2 else term)
        return reduce(b.add, terms)

    return minor(0, list(range(size)))


@define("MatMulInteger", since=10)
def matmul_integer(c: Call) -> SSAValue:
    """`matmul` in i32 of what is left of the zero points"""
    x = centred(c, c[0], c.get(2), axis=-2)
    y = centred(c, c[1], c.get(3), axis=-1)
    return product(c, x, y)


def centred(c: Call, x: SSAValue, zero: SSAValue | None, axis: int) -> SSAValue:
    """Integers less their zero point, in i32; one of several zero points lies along an axis."""
    b = c.b
    wide = b.cast(x, "i32")
    if not rank(x):
        c.fail("a product of a scalar")
    if zero is None:
        return wide
    known = c.importer.known.array(zero)
    if known is not None and not np.any(known):
        return wide
    if rank(zero) == 1 and shape(zero)[0] == 1:
        zero = b.reshape(zero, [])
    elif rank(zero) == 1:
        place = axis % rank(x)
        sizes = [shape(zero)[0] if item == place else 1 for item in range(rank(x))]
        zero = b.reshape(zero, sizes)
    return b.sub(wide, b.cast(zero, "i32"))


def scale_of_heads(size: int) -> float:
    """What scores of heads of a size are multiplied by."""
    return 1 / math.sqrt(size)


def in_float(c: Call, x: SSAValue, kind: str) -> SSAValue:
    """A value in a float type."""
    return x if element(x).name == kind else c.b.cast(x, kind)
