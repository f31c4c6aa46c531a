"""Random numbers: those of the run's seed. The attribute `seed` of a node is not used."""

import numpy as np
from xdsl.ir import SSAValue

from mgn.frontend.onnx.core.call import Call, element, shape
from mgn.frontend.onnx.core.operator import define


@define("RandomNormal", "RandomNormalLike")
def random_normal(c: Call) -> SSAValue:
    """`normal`"""
    sizes, kind = _wanted(c)
    mean, scale = c.attribute("mean", 0.0), c.attribute("scale", 1.0)
    return c.b.normal(sizes, mean=mean, std=scale, T=kind)


@define("RandomUniform", "RandomUniformLike")
def random_uniform(c: Call) -> SSAValue:
    """`uniform`"""
    sizes, kind = _wanted(c)
    return c.b.uniform(sizes, low=c.attribute("low", 0.0), high=c.attribute("high", 1.0), T=kind)


def _wanted(c: Call) -> tuple[list[int], str]:
    """Shape and element type."""
    if c.node.operator.endswith("Like"):
        return list(shape(c[0])), c.dtype("dtype", element(c[0]).dtype).name
    return list(c.required("shape")), c.dtype("dtype", np.float32).name


@define("Bernoulli", since=15)
def bernoulli(c: Call) -> SSAValue:
    """`uniform` compared with the probabilities"""
    x, b = c[0], c.b
    kind = c.dtype("dtype", element(x).dtype)
    drawn = b.uniform(list(shape(x)), T="f32")
    return b.cast(b.lt(drawn, b.cast(x, "f32")), kind.name)


@define("Multinomial", since=7)
def multinomial(c: Call) -> SSAValue:
    """`categorical`"""
    x, b = c[0], c.b
    count = c.attribute("sample_size", 1)
    rows = b.broadcast_to(b.expand_dims(x, 1), [shape(x)[0], count, shape(x)[1]])
    return b.cast(b.categorical(rows), c.dtype("dtype", np.int32).name)
