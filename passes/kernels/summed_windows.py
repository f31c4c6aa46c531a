"""Windows that a product adds up over all their places, as the gradient of a convolution's weights.

In: a product with a row for each channel that came back, a column for each element of the windows
of each channel that came in, and a step for each place of each image. Out: `SummedWindows`: the
planes that the windows slide over, and which image and channel each of a batch begins with.

    [O, N·places] @ [C·elements, N·places] transposed

A batch is the groups of a convolution, or the parts of its images that are added up apart.
"""

from dataclasses import dataclass
from math import prod

from mgn.passes.kernels.body import Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.window_planes import (
    MOST_COPIED,
    MOST_ELEMENTS,
    Band,
    WindowPlanes,
    planes_of_windows,
)


@dataclass(frozen=True)
class SummedWindows:
    """Windows of so many `images` and `channels`, in each of a batch, which is `parts` of the
    images or else groups of channels.
    """

    planes: WindowPlanes
    images: int
    channels: int
    parts: bool

    @property
    def elements(self) -> int:
        """Elements of a window."""
        return prod(self.planes.kernel)

    def outer(self, batch: Index, image: Index, channel: Index) -> tuple[Index, Index]:
        """An image and a channel of one of a batch, among all."""
        if self.parts:
            return batch * self.images + image, channel
        return image, batch * self.channels + channel


def summed_windows(product: Product) -> SummedWindows | None:
    """The windows of a product that adds them up over all places, if it is one."""
    node = product.node
    right = node.operands[1]
    plain = node.values["transpose_b"] and not node.values["transpose_a"] and product.halves == 1
    if not plain or product.rows == 1 or len(product.batch) > 1:
        return None
    if any(operand.shape[:-2] != product.batch for operand in node.operands):
        return None
    whole = _before_parts(right) if product.batch else None
    view = right if whole is None else whole
    while view.name == "reshape":
        (view,) = view.operands
    planes = _planes_of_turned(view)
    if planes is None:
        return None
    images, channels = planes.outer
    places, elements = prod(planes.places), prod(planes.kernel)
    if whole is not None:
        images //= prod(product.batch)
    elif product.batch:
        channels //= prod(product.batch)
    fits = product.depth == images * places and product.columns == channels * elements
    few = elements <= MOST_ELEMENTS and Band(planes, 1).size <= MOST_COPIED
    return SummedWindows(planes, images, channels, whole is not None) if fits and few else None


def _before_parts(node: Node) -> Node | None:
    """The matrix whose shared axis is cut into parts, which come first; None where none is."""
    (turned,) = node.operands if node.name == "reshape" else (node,)
    if turned.name != "transpose" or len(turned.shape) != 3 or turned.shape != node.shape:
        return None
    cut = turned.operands[0]
    parts, columns, each = turned.shape
    if tuple(turned.values["perm"]) != (1, 0, 2) or cut.name != "reshape":
        return None
    return cut if cut.shape == (columns, parts, each) else None


def _planes_of_turned(view: Node) -> WindowPlanes | None:
    """The planes of windows with their channels and elements first, images and places last."""
    if view.name != "transpose" or view.operands[0].name != "windows":
        return None
    windows = view.operands[0]
    axes = len(windows.values["sizes"])
    order = (1, *range(2 + axes, 2 + 2 * axes), 0, *range(2, 2 + axes))
    if len(windows.shape) != 2 + 2 * axes or tuple(view.values["perm"]) != order:
        return None
    return planes_of_windows(view, windows)
