"""Gradients of pooling. The largest element of a window, the first where several are, gets all that
the window sends back. Means are differentiated through their decomposition.
"""

from math import prod

import numpy as np

from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.gradients.movement import added_windows
from mgn.dialects.mgn.gradients.rules import Gradients, Site, gradient, spread
from mgn.dialects.mgn.operations.images.convolution import elements_first, surrounded
from mgn.dialects.mgn.operations.images.pooling import overhang
from mgn.dialects.mgn.operations.rows.reductions import neutral_maximum


@gradient("max_pool1d", "max_pool2d", "max_pool3d")
def max_pool(b: Emitter, at: Site) -> Gradients:
    """To the first maximum of each window."""
    values = dict(at.values)
    shape = shape_of(at.x)
    kernel, stride, dilation = values["kernel"], values["stride"], values["dilation"]
    sides = overhang(shape[2:], **values)
    dtype = element_type_of(at.x).dtype
    assert dtype is not None
    whole = surrounded(b, at.x, sides, float(neutral_maximum(np.dtype(dtype))))
    axes = len(kernel)
    found = elements_first(b, b.windows(whole, kernel, stride, dilation), axes)
    elements = tuple(range(2, 2 + axes))
    taken = b.argmax(found, axis=elements, keepdims=True)
    line = [n if i in elements else 1 for i, n in enumerate(shape_of(found))]
    number = b.reshape(b.iota((prod(kernel),), axis=0, T="i32"), line)
    sent = b.where(b.eq(number, taken), spread(b, at.g, elements, shape_of(found)), 0.0)
    order = (0, 1, *range(2 + axes, 2 + 2 * axes), *elements)
    sent = b.transpose(sent, order)
    laid = added_windows(b, sent, shape_of(whole), kernel, stride, dilation)
    starts = (0, 0, *(low for low, _ in sides))
    stops = [start + n for start, n in zip(starts, shape, strict=True)]
    return [b.slice(laid, starts, stops)]
