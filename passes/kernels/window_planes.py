"""Windows that slide over planes, as a CPU reads them: rows of a plane, copied with their padding.

In: a body that reads `windows`. Out: `WindowPlanes`: where the windows stand in it, what is copied
of which operand, and where a copy has an element of a window.

A copy holds a band of rows of one channel. Windows may slide by a stride of more than one element.
Then the copy has a plane for each phase of the stride: elements that are a stride apart lie side by
side. So neighbouring windows read neighbours, wherever padding begins.
"""

from dataclasses import dataclass
from math import prod

from mgn.dialects.mgn.operation import Kind
from mgn.passes.kernels.arithmetic import ceil_div
from mgn.passes.kernels.body import Body, Indices, Node
from mgn.passes.kernels.index import Index
from mgn.passes.kernels.long_chains import CHAIN, MOST_STEPS
from mgn.passes.kernels.product import Product
from mgn.passes.kernels.rows import RowSpace

MOST_ELEMENTS = 49
"""Up to so many elements of a window are written out, one after the other. The same number holds
for a row of a larger window.
"""

WRITTEN_OUT = 16
"""Elements of a longer row that are written out at a time."""

MOST_COPIED = 8192
"""Elements that the least copy may have."""

LONGEST_ROW, LEAST_ROW = 10, 6
"""Columns of a product that are taken as a row of places."""

MOST_STRIDE, MOST_STRIDE_REDUCED = 2, 8
"""The largest strides whose phases a copy by vectors separates: for products, and for reductions.
Reductions have no better way to read such windows.
"""

REDUCED = frozenset({"sum", "max_reduce", "min_reduce"})
"""Reductions of windows that are walked so."""

COPIED = frozenset({"f32", "f64"})
"""Types of elements that are copied."""

Pair = tuple[int, int]


@dataclass(frozen=True)
class WindowPlanes:
    """Windows over the last two axes of a value, or over its last one: a plane is then one row.

    `view` is the windows with the axes of their elements first. `source` is copied, with a padding
    of `value`. Where plain columns of a product are taken for windows of one element, they are
    both.
    """

    view: Node
    source: Node
    value: float
    low: Pair
    size: Pair
    kernel: Pair
    strides: Pair
    dilation: Pair
    places: Pair

    @property
    def axes(self) -> int:
        """Over how many axes windows slide."""
        if self.view is self.source:
            return 1
        return len(self.view.operands[0].values["sizes"])

    @property
    def outer(self) -> tuple[int, ...]:
        """The axes before: images and channels."""
        return self.source.shape[: len(self.source.shape) - self.axes]

    def source_index(self, outer: Indices, y: Index, x: Index) -> Indices:
        """The element of the source in a row and column."""
        if self.view is self.source:
            return (*outer, y * self.size[1] + x)
        return (*outer, y, x) if self.axes == 2 else (*outer, x)

    def index_of(self, y: Index, x: Index) -> Indices:
        """A row and a column, of places or of elements, as indices of the axes that slide."""
        return (y, x) if self.axes == 2 else (x,)


@dataclass(frozen=True)
class Band:
    """A copy of what so many rows of places read, of one channel."""

    planes: WindowPlanes
    rows: int

    @property
    def source_rows(self) -> int:
        """Rows of the padded source."""
        planes = self.planes
        span = (planes.kernel[0] - 1) * planes.dilation[0]
        return (self.rows - 1) * planes.strides[0] + span + 1

    @property
    def stride(self) -> int:
        """Elements between rows of a phase."""
        planes = self.planes
        span = (planes.kernel[1] - 1) * planes.dilation[1]
        needed = planes.places[1] + span // planes.strides[1]
        return max(needed, ceil_div(planes.low[1] + planes.size[1], planes.strides[1]))

    @property
    def phase_size(self) -> int:
        """Elements of a phase."""
        return ceil_div(self.source_rows, self.planes.strides[0]) * self.stride

    @property
    def size(self) -> int:
        """Elements of all phases."""
        return self.phase_size * self.planes.strides[0] * self.planes.strides[1]

    def at(self, row: Index, column: Index) -> Index:
        """Where a row and a column of the padded source are."""
        down, across = self.planes.strides
        phase = row % down * across + column % across
        return phase * self.phase_size + row // down * self.stride + column // across

    def element(self, y: Index, x: Index) -> Index:
        """The distance of an element of a window from the window's place in the copy."""
        apart_y, apart_x = self.planes.dilation
        return self.at(y * apart_y, x * apart_x)


def planes_of_reduction(body: Body, space: RowSpace) -> WindowPlanes | None:
    """The windows whose elements a body reduces. None if another value depends on places."""
    reductions = body.of_kind(Kind.REDUCTION)
    if any(space.is_full(node) or node.name not in REDUCED for node in reductions):
        return None
    if any(space.is_full(node) for node in body.written):
        return None
    found: set[Node] = set()
    for node in reductions:
        views = _views(node.operands[0], space)
        if views is None:
            return None
        found |= views
    planes = planes_of_view(next(iter(found)), MOST_STRIDE_REDUCED) if len(found) == 1 else None
    if planes is None:
        return None
    first = len(planes.outer)
    in_order = space.reduced == tuple(range(first, first + planes.axes))
    alike = in_order and space.shape == planes.view.shape and len(reductions) == 1
    few = space.length <= CHAIN and planes.places[1] > 1
    few = few and Band(planes, 1).size <= MOST_COPIED
    return planes if alike and few else None


def _views(root: Node, space: RowSpace) -> set[Node] | None:
    """The values that differ from place to place, from which an operand is computed element by
    element. None where one of them is no movement.
    """
    found, pending = set[Node](), [root]
    while pending:
        node = pending.pop()
        if _is_uniform(node, space):
            continue
        if node.kind is Kind.MOVEMENT and node.shape == space.shape:
            found.add(node)
        elif node.kind is Kind.ELEMENTWISE and node.shape == space.shape:
            pending.extend(node.operands)
        else:
            return None
    return found


def _is_uniform(node: Node, space: RowSpace) -> bool:
    """Whether a value is the same in all places, whose axes come last."""
    axes = len(space.shape) - 1 - max(space.reduced)
    return all(size == 1 for size in node.shape[-axes:])


def planes_of_view(view: Node, most: int = MOST_STRIDE) -> WindowPlanes | None:
    """The planes that windows slide over, for windows with the axes of their elements first. Their
    strides are `most` at most.
    """
    if view.name != "transpose" or view.operands[0].name != "windows":
        return None
    windows = view.operands[0]
    axes = len(windows.values["sizes"])
    outer = len(windows.shape) - 2 * axes
    order = (*range(outer), *range(outer + axes, outer + 2 * axes), *range(outer, outer + axes))
    found = tuple(view.values["perm"]) == order
    return planes_of_windows(view, windows, most) if found else None


def planes_of_windows(view: Node, windows: Node, most: int = MOST_STRIDE) -> WindowPlanes | None:
    """The planes that windows slide over, whose axes a view has in another order."""
    axes, values = len(windows.values["sizes"]), windows.values
    outer = len(windows.shape) - 2 * axes
    if axes > 2 or windows.element.name not in COPIED:
        return None
    if max(values["strides"]) > most or not windows.count:
        return None
    (source,), low, value = windows.operands, (0,) * axes, 0.0
    if source.name == "pad" and source.operands[0].count:
        padding = source.values["padding"]
        if not any(side for pair in padding[:outer] for side in pair):
            low, value = tuple(pair[0] for pair in padding[outer:]), float(source.values["value"])
            (source,) = source.operands
    size = _pair(source.shape[outer:], 1)
    strides = _pair(values["strides"], 1)
    if size[1] < strides[1] or any(side < 0 for side in low):
        return None
    kernel, dilation = _pair(values["sizes"], 1), _pair(values["dilation"], 1)
    places = _pair(windows.shape[outer : outer + axes], 1)
    return WindowPlanes(view, source, value, _pair(low, 0), size, kernel, strides, dilation, places)


def _pair(numbers: tuple[int, ...], first: int) -> Pair:
    return (numbers[0], numbers[1]) if len(numbers) == 2 else (first, numbers[0])


def planes_of_product(product: Product) -> WindowPlanes | None:
    """The windows that are the right operand of a product. The product has a column for each place,
    and its shared axis has each element of each channel.
    """
    node = product.node
    if node.values["transpose_a"] or node.values["transpose_b"] or product.halves != 1:
        return None
    view = right = node.operands[1]
    while view.name == "reshape":
        (view,) = view.operands
    planes = planes_of_view(view)
    if planes is None or right.shape[:-2] not in ((), product.batch):
        return None
    elements, places = prod(planes.kernel), prod(planes.places)
    fits = product.columns == places and product.depth % elements == 0
    return planes if fits and product.depth <= MOST_STEPS else None


def planes_of_columns(product: Product) -> WindowPlanes | None:
    """The windows that are the right operand of a product, or else its columns as rows of places:
    windows of one element.
    """
    found = planes_of_product(product)
    if found is not None or product.rows == 1:
        return found
    node, right = product.node, product.node.operands[1]
    plain = not (node.values["transpose_a"] or node.values["transpose_b"] or product.halves != 1)
    if not plain or right.element.name not in COPIED or right.shape[:-2] not in ((), product.batch):
        return None
    places = next(size for size in range(LONGEST_ROW, 0, -1) if product.columns % size == 0)
    if places < LEAST_ROW or product.depth > MOST_STEPS:
        return None
    size = (product.columns // places, places)
    return WindowPlanes(right, right, 0.0, (0, 0), size, (1, 1), (1, 1), (1, 1), size)


@dataclass(frozen=True)
class PooledPlaces:
    """Windows of `size` rows and columns of places, `count` below and beside one another. They
    begin at the first place and leave none out between them. Of a convolution whose places are not
    combined a window is one place.
    """

    size: Pair
    count: Pair

    @property
    def rows(self) -> int:
        """Rows of places that windows have."""
        return self.size[0] * self.count[0]

    @staticmethod
    def of(product: Product, planes: WindowPlanes) -> "PooledPlaces | None":
        """The windows of a product."""
        if product.pool is None:
            return PooledPlaces((1, 1), planes.places)
        rows, columns = planes.places
        if product.pool.combines_rows or columns == 1:
            return None
        members, groups = product.pool.along(True), product.pool.along(False)
        size = members.pop(columns, 1), members.pop(1, 1)
        count = groups.pop(size[0] * columns, 1), groups.pop(size[1], 1)
        found = PooledPlaces(size, count)
        fits = found.rows <= rows and size[1] * count[1] <= columns
        return None if members or groups or not fits else found
