"""Windows of images whose channels are last, as rows of a product's left operand.

In: a value `[N·places, sizes·C]`. Out: `ChannelWindows`: the images that it is made of, their
padding, and how windows lie over them. The channels of an element of a window are neighbours in
memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import Index


@dataclass(frozen=True)
class ChannelWindows:
    """Windows slide over `image`, `[N, places …, C]`, which is `source` with a padding of `value`.
    `low` is the padding before the first place along each axis.
    """

    windows: Node
    image: Node
    source: Node
    low: tuple[int, ...]
    value: float

    @property
    def images(self) -> int:
        return self.image.shape[0]

    @property
    def channels(self) -> int:
        return self.image.shape[-1]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of a window along each axis."""
        return tuple(self.windows.values["sizes"])

    @property
    def places(self) -> tuple[int, ...]:
        """How many windows there are along each axis."""
        return self.windows.shape[2 : 2 + len(self.sizes)]

    @property
    def steps(self) -> Sequence[tuple[int, int]]:
        """From one place to the next, and from one element to the next, along each axis."""
        return list(
            zip(self.windows.values["strides"], self.windows.values["dilation"], strict=True)
        )

    def element(self, place: Indices, element: Indices) -> tuple[Index, ...]:
        """Where the source has an element of the window at a place: outside of it is padding."""
        parts = zip(place, element, self.steps, self.low, strict=True)
        return tuple(own * step + part * apart - low for own, part, (step, apart), low in parts)

    @staticmethod
    def of(left: Node) -> "ChannelWindows | None":
        """The windows that a product's rows are; None for other values."""
        turned = _below(left, "reshape")
        windows = _below(turned, "transpose")
        if turned is None or windows is None or windows.name != "windows" or not windows.count:
            return None
        axes = len(windows.values["sizes"])
        if len(windows.shape) != 2 + 2 * axes:
            return None
        if tuple(turned.values["perm"]) != (0, *range(2, 2 + 2 * axes), 1):
            return None
        first = windows.operands[0]
        image = _below(first, "transpose")
        if image is None or tuple(first.values["perm"]) != (0, 1 + axes, *range(1, 1 + axes)):
            return None
        found = _with_padding_apart(windows, image)
        depth = prod(found.sizes) * found.channels
        return found if left.shape == (found.images * prod(found.places), depth) else None


def _below(node: Node | None, name: str) -> Node | None:
    """The operand of an operation of a name; None for another one."""
    return node.operands[0] if node is not None and node.name == name else None


def _with_padding_apart(windows: Node, image: Node) -> ChannelWindows:
    if image.name == "pad" and image.operands[0].count:
        images, *around, channels = image.values["padding"]
        if not any((*images, *channels)) and min(low for low, _ in around) >= 0:
            low, value = tuple(low for low, _ in around), float(image.values["value"])
            return ChannelWindows(windows, image, image.operands[0], low, value)
    nothing = (0,) * len(windows.values["sizes"])
    return ChannelWindows(windows, image, image, nothing, 0.0)
