"""Which bodies are one kernel: the legality of a body, worked out from its e-nodes.

In: a body, e-nodes in dependency order. Out: its `Form`: the kernel kind, the iteration space, and
for each value how it lies in that space; or None where no template can compute it.

    pointwise    every value at an index of the result
    reduction    values in *full* space S, or in *row* space: S without the reduced axes, or with
                 1s in their place; and, past a reshape, in another shape in the order of S
    contraction  one matmul, and what keeps its elements in order, or what both halves of its
                 columns give, or a reduction of few neighbours of these and what keeps its elements
                 in order; on a GPU also reductions of its rows, for its left operand and for what
                 follows
    attention    one attention, and what keeps its elements in order; the log-sum-exp beside it
    scan         one scan, and what keeps its shape
    scatter      one scatter, and what keeps its shape
    order        values in the order of the same keys, and what keeps their shape
    update       one update of what lies in memory, and what it writes there
    recurrence   one recurrence
    row_blocks   sums of blocks of rows beside a reduction of these rows, or something pointwise
    attention_gradient   one operation of attention's gradient; what keeps the elements in order of
                         the gradient of queries, or of the parts of that of keys and values
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property

from mgn.dialects.fusion import KernelKind
from mgn.dialects.fusion.attention_bodies import HALVES, widens
from mgn.dialects.fusion.forms import ATTENTION_GRADIENT, TOTALS, has_totals, takes_part
from mgn.dialects.fusion.product_bodies import (
    keeps_rows,
    may_have_statistics,
    reduces_rows,
)
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.types import element_of
from mgn.passes.saturate.egraph.view import Signature
from mgn.passes.saturate.prices.bodies import BodyNode, Names
from mgn.passes.saturate.prices.product_parts import is_half, pool_in

Shape = tuple[int, ...]
Facts = tuple[tuple[str, int | str], ...]
"""The facts of a kernel for its price and schedule: the layout of its operands and results, the
input type of a matrix unit, and whether the maxima of rows only stabilise exponentials.
"""

IN_ROW_SPACE = (KernelKind.REDUCTION, KernelKind.ROW_BLOCKS)
"""Kinds of kernels whose space is rows, of which `axes` are the elements."""

Way = tuple[KernelKind, bool, bool]
"""A kind of kernel, whether halves of a product meet in it, whether it reduces a product's rows."""


class Place(Enum):
    """How a value lies in its kernel's iteration space."""

    __hash__ = object.__hash__

    BEFORE = auto()  # computed at any index, from leaves only
    FULL = auto()  # depends on a reduction; one value an element of S
    RESHAPED = auto()  # as FULL, in another shape, elements in the order of S
    KEPT = auto()  # row space, reduced axes are 1
    DROPPED = auto()  # row space, reduced axes are gone
    AFTER = auto()  # depends on the heavy operation, elements in its order
    HALVED = auto()  # depends on halves of a product's columns
    APART = auto()  # depends on a product, moved for a reduction of neighbours
    COMBINED = auto()  # depends on a reduction of neighbours, elements in its order
    TOTALS = auto()  # the log-sum-exp of the scores of the heavy attention
    OF_KEYS = auto()  # depends on the keys' columns of a gradient of keys and values
    OF_VALUES = auto()  # depends on the values' columns
    BLOCKS = auto()  # a sum for each block of rows


ONE_A_ROW = (Place.KEPT, Place.DROPPED)
"""Where values lie that there is one of for each row, or for each column of what is reduced down
columns.
"""


@dataclass
class Form:
    """The kind of a legal body, its space and the place of each of its values.

    `reduced` is the shape of the values whose rows a product's kernel reduces, empty where it does
    not; KEPT, DROPPED and FULL are then said of that space. `rows_of_block` is how many rows are
    added up, 0 where none are.
    """

    kind: KernelKind
    shape: Shape = ()
    axes: tuple[int, ...] = ()
    places: dict[int, Place] = field(default_factory=dict[int, Place])
    heavy: int | None = None
    reduced: Shape = ()
    rows_of_block: int = 0

    def at(self, names: Names) -> "Form":
        """The form of the same body over other names."""
        places = {names[name]: place for name, place in self.places.items()}
        heavy = None if self.heavy is None else names[self.heavy]
        made = Form(self.kind, self.shape, self.axes, places, heavy, self.reduced)
        made.rows_of_block = self.rows_of_block
        return made

    @property
    def kept_shape(self) -> Shape:
        return tuple(1 if axis in self.axes else size for axis, size in enumerate(self.shape))

    @property
    def dropped_shape(self) -> Shape:
        return tuple(size for axis, size in enumerate(self.shape) if axis not in self.axes)

    @cached_property
    def rows(self) -> int:
        return math.prod(self.dropped_shape)

    @cached_property
    def halved(self) -> bool:
        """Whether halves of a product meet."""
        return Place.HALVED in self.places.values()

    @cached_property
    def pooled(self) -> bool:
        """Whether neighbouring results of a product are combined."""
        return Place.COMBINED in self.places.values()

    @cached_property
    def is_open(self) -> bool:
        """Whether no kernel has the body, but that of a reduction which follows may have it."""
        return Place.APART in self.places.values() and not self.pooled

    @cached_property
    def way(self) -> "Way":
        """What no kernel of another kind is a substitute for."""
        return self.kind, self.halved, bool(self.reduced)

    @property
    def has_rows(self) -> bool:
        """Whether the kernel reduces rows: by itself, or for a product."""
        return self.kind is KernelKind.REDUCTION or bool(self.reduced)

    @property
    def leading(self) -> bool:
        """Whether the reduced axes come first, so that dropped rows broadcast into S as they
        should.
        """
        return self.axes == tuple(range(len(self.axes)))

    def writable(self, name: int, signature: Signature, root: Signature) -> bool:
        """Whether the kernel can also write this value of its body."""
        place = self.places[name]
        if self.kind is KernelKind.POINTWISE:
            return signature.shape == root.shape
        if self.kind in IN_ROW_SPACE:
            return place is not Place.BEFORE or signature.shape == self.shape
        if place in (Place.TOTALS, *PARTS):
            return True
        if self.pooled:
            return place is Place.COMBINED
        whole = place is Place.AFTER and not self.halved
        return whole and not any(item in PARTS for item in self.places.values())


PARTS = (Place.OF_KEYS, Place.OF_VALUES)
"""Where what follows keys lies, and what follows values."""


def classify(body: Sequence[BodyNode], signatures: Sequence[Signature]) -> Form | None:
    """The form of a body; None where it is not legal."""
    form = Form(KernelKind.POINTWISE)
    fits = all(_places(form, node, body, signatures) for node in body)
    return form if fits else None


def classify_joined(
    body: Sequence[BodyNode], parts: Sequence[tuple[Form, Names]], signatures: Sequence[Signature]
) -> Form | None:
    """The form of a body that is some parts, none of which computes what another one reads, and one
    operation that follows; each part is given by its form and the names that its own ones have.
    """
    deciding = [part for part in parts if part[0].kind is not KernelKind.POINTWISE]
    if len(deciding) > 1:
        return classify(body, signatures)
    form = Form(KernelKind.POINTWISE)
    for known, names in deciding:
        form = known.at(names)
    for name, _, _ in body[:-1]:
        form.places.setdefault(name, Place.BEFORE)
    return form if _places(form, body[-1], body, signatures) else None


def _places(
    form: Form, node: BodyNode, body: Sequence[BodyNode], signatures: Sequence[Signature]
) -> bool:
    """Notes where the next value of a body lies, and whether it may be there."""
    name, number, operands = node
    signature, places = signatures[number], form.places
    found = [places.get(operand, Place.BEFORE) for operand in operands]
    plain = signature.kind is not Kind.REDUCTION and signature.heavy is None
    if plain and found.count(Place.BEFORE) == len(found):
        places[name] = Place.BEFORE
        return True
    place = _place(form, node, found, body, signatures)
    if place is None:
        return False
    places[name] = place
    return True


def _place(
    form: Form,
    node: BodyNode,
    found: Sequence[Place],
    body: Sequence[BodyNode],
    signatures: Sequence[Signature],
) -> Place | None:
    """Where what is no plain function of leaves lies whose operands are found there."""
    name, number, operands = node
    signature = signatures[number]
    product = None
    if form.heavy is not None:
        product = next(signatures[item[1]] for item in body if item[0] == form.heavy)
    if signature.kind is Kind.REDUCTION and found[0] in (Place.AFTER, Place.APART):
        return _combine(form, node, body, signatures)
    if signature.kind is Kind.REDUCTION:
        return _reduce(form, signature, found[0], product)
    if signature.heavy is KernelKind.UPDATE and not _updates_memory(body, operands[0]):
        return None
    if signature.heavy is not None:
        if form.kind is KernelKind.ORDER:
            return _ordered_alike(form, signature, operands, body, signatures)
        if signature.heavy is KernelKind.ROW_BLOCKS:
            return _block_sums(form, name, signature, found[0])
        if form.kind is KernelKind.ATTENTION:
            return _totals_beside(form, signature, operands, body, signatures)
        return _heavy(form, name, signature, found)
    if signature.kind is Kind.ELEMENTWISE:
        return _elementwise(form, signature, found, product)
    if signature.kind is Kind.MOVEMENT:
        return _movement(form, signature, found, product)
    return None


def _reduce(
    form: Form, signature: Signature, operand: Place, product: Signature | None
) -> Place | None:
    shape, axes = signature.operand_shapes[0], tuple(signature.values["axis"])
    if operand not in (Place.BEFORE, Place.FULL):
        return None
    if form.kind is KernelKind.POINTWISE:
        form.kind, form.shape, form.axes = KernelKind.REDUCTION, shape, axes
    if form.kind is KernelKind.CONTRACTION and product is not None:
        if not _has_rows(product, shape, signature) or form.reduced not in ((), shape):
            return None
        if not {Place.APART, Place.COMBINED}.isdisjoint(form.places.values()):
            return None
        form.reduced = shape
    elif form.kind not in IN_ROW_SPACE or (form.shape, form.axes) != (shape, axes):
        return None
    return Place.KEPT if signature.values["keepdims"] else Place.DROPPED


def _combine(
    form: Form, node: BodyNode, body: Sequence[BodyNode], signatures: Sequence[Signature]
) -> Place | None:
    """Where a reduction of neighbouring results of a product lies; None for another one."""
    if form.kind is not KernelKind.CONTRACTION or form.reduced:
        return None
    if not {Place.HALVED, Place.COMBINED}.isdisjoint(form.places.values()):
        return None
    found = form.heavy is not None and pool_in(form.heavy, node, body, signatures)
    return Place.COMBINED if found else None


def _block_sums(form: Form, name: int, signature: Signature, operand: Place) -> Place | None:
    """Where sums of blocks lie; None where the kernel's rows are not theirs, or other blocks."""
    shape, leading = signature.operand_shapes[0], signature.values["leading"]
    axes = tuple(range(leading, len(shape)))
    if not axes or operand not in (Place.BEFORE, Place.FULL) or signature.element in HALVES:
        return None
    if form.kind is KernelKind.POINTWISE:
        form.shape, form.axes = shape, axes
    elif form.kind not in IN_ROW_SPACE or (form.shape, form.axes) != (shape, axes):
        return None
    if form.rows_of_block not in (0, signature.values["rows"]):
        return None
    form.kind, form.rows_of_block = KernelKind.ROW_BLOCKS, signature.values["rows"]
    form.heavy = name if form.heavy is None else form.heavy
    return Place.BLOCKS


def _ordered_alike(
    form: Form,
    signature: Signature,
    operands: Sequence[int],
    body: Sequence[BodyNode],
    signatures: Sequence[Signature],
) -> Place | None:
    """Where one more value lies that is put in order; None where its keys are not the kernel's."""
    number, (keys, *others) = next(node[1:] for node in body if node[0] == form.heavy)
    first = signatures[number]
    if (signature.name, signature.values) != (first.name, first.values) or len(operands) < 2:
        return None
    alike = operands[0] == keys and form.places.get(operands[1], Place.BEFORE) is Place.BEFORE
    return Place.AFTER if alike and list(operands[2:]) == others[1:] else None


def _totals_beside(
    form: Form,
    signature: Signature,
    operands: Sequence[int],
    body: Sequence[BodyNode],
    signatures: Sequence[Signature],
) -> Place | None:
    """Where a log-sum-exp lies beside an attention; None where that has other scores."""
    nodes = {name: (signatures[number], given) for name, number, given in body}
    assert form.heavy is not None
    attention, attended = nodes[form.heavy]
    if signature.name != TOTALS or Place.TOTALS in form.places.values():
        return None

    def before_widening(name: int) -> int:
        if name not in nodes or nodes[name][0].name != "cast":
            return name
        cast, (source,) = nodes[name]
        return source if widens(element_of(cast.operand_types[0]).name, cast.element) else name

    given = [[before_widening(item) for item in items] for items in (operands, attended)]
    fits = has_totals(attention.name, signature.values, attention.values, *given)
    return Place.TOTALS if fits and signature.size and attention.size else None


def _updates_memory(body: Sequence[BodyNode], whole: int) -> bool:
    """Whether what is updated lies in memory, and is read for nothing else."""
    reads = [item for name, _, operands in body for item in (name, *operands)]
    return reads.count(whole) == 1


def _has_rows(product: Signature, shape: Shape, reduction: Signature) -> bool:
    """Whether a product's kernel can reduce rows of values of that shape."""
    left, right = product.operand_shapes
    if not may_have_statistics(product.shape, left, right, product.values):
        return False
    return reduces_rows(shape, reduction.values, product.shape)


def _heavy(form: Form, name: int, signature: Signature, operands: Sequence[Place]) -> Place | None:
    assert signature.heavy is not None
    if form.kind is KernelKind.REDUCTION and signature.kind is Kind.CONTRACTION:
        return _product_of_rows(form, name, signature, operands)
    if form.kind is not KernelKind.POINTWISE or any(item is not Place.BEFORE for item in operands):
        return None
    form.kind, form.shape, form.heavy = signature.heavy, signature.shape, name
    return Place.AFTER


def _product_of_rows(
    form: Form, name: int, signature: Signature, operands: Sequence[Place]
) -> Place | None:
    """A product after reductions of its rows."""
    rows, columns = operands
    if rows not in (Place.BEFORE, Place.FULL) or columns is not Place.BEFORE:
        return None
    left, right = signature.operand_shapes
    fits = may_have_statistics(signature.shape, left, right, signature.values)
    if not fits or not reduces_rows(form.shape, {"axis": form.axes}, signature.shape):
        return None
    form.kind, form.heavy, form.reduced = KernelKind.CONTRACTION, name, form.shape
    form.shape, form.axes = signature.shape, ()
    return Place.AFTER


KEEPING_SHAPE = (KernelKind.SCAN, KernelKind.SCATTER, KernelKind.ORDER)
"""Kinds of kernels whose results all have the shape of the heavy operation's."""

ALONE = (KernelKind.UPDATE, KernelKind.RECURRENCE)
"""Kinds of kernels in which nothing follows the heavy operation."""

OF_ROWS = frozenset({Place.KEPT, Place.DROPPED, Place.FULL})
"""Where values beside a product are that its kernel reduces, or computes from what it reduced."""


def _elementwise(
    form: Form, signature: Signature, operands: Sequence[Place], product: Signature | None
) -> Place | None:
    if form.kind in IN_ROW_SPACE:
        return _elementwise_in_rows(form, signature, operands)
    if form.kind in ALONE or Place.TOTALS in operands or (product and product.name == TOTALS):
        return None
    if form.kind in KEEPING_SHAPE and signature.shape != form.shape:
        return None
    dependent = {item for item in operands if item is not Place.BEFORE}
    if Place.APART in dependent:
        return None
    if form.reduced and product is not None:
        if not _all_keep_rows(signature, operands, product, True):
            return None
        if dependent <= OF_ROWS:
            return _place_in_rows(form, signature.shape)
        dependent -= OF_ROWS
    return dependent.pop() if len(dependent) == 1 and _keeps_order(signature, operands) else None


def _all_keep_rows(
    signature: Signature, operands: Sequence[Place], product: Signature, plain: bool
) -> bool:
    """Whether an operation takes all that its kernel computes of a product's rows row by row."""
    return all(
        place not in OF_ROWS or keeps_rows(plain, shape, signature.shape, product.shape)
        for place, shape in zip(operands, signature.operand_shapes, strict=True)
    )


def _place_in_rows(form: Form, shape: Shape) -> Place | None:
    """Where a value lies that is computed from rows of a product alone."""
    outer = form.reduced[:-1]
    places = {(*outer, 1): Place.KEPT, outer: Place.DROPPED, form.reduced: Place.FULL}
    return places.get(shape)


def _keeps_order(signature: Signature, operands: Sequence[Place]) -> bool:
    """Whether no operand that depends on the heavy operation or a reduction is broadcast."""
    return all(
        place is Place.BEFORE
        or place in OF_ROWS
        or (math.prod(shape) == signature.size and signature.shape[-len(shape) :] == shape)
        for place, shape in zip(operands, signature.operand_shapes, strict=True)
    )


def _elementwise_in_rows(
    form: Form, signature: Signature, operands: Sequence[Place]
) -> Place | None:
    dependent = {item for item in operands if item is not Place.BEFORE}
    if Place.BLOCKS in dependent:
        return None
    if Place.RESHAPED in dependent:
        alike = dependent == {Place.RESHAPED} and _keeps_order(signature, operands)
        return Place.RESHAPED if alike else None
    if Place.DROPPED in dependent:
        if dependent == {Place.DROPPED} and signature.shape == form.dropped_shape:
            return Place.DROPPED
        if not form.leading:
            return None
    elif signature.shape == form.kept_shape and Place.FULL not in dependent:
        return Place.KEPT
    return Place.FULL if signature.shape == form.shape else None


def _movement(
    form: Form, signature: Signature, operands: Sequence[Place], heavy: Signature | None
) -> Place | None:
    if len(operands) != 1:
        return None
    (place,) = operands
    if form.kind in ALONE or place is Place.TOTALS or (heavy and heavy.name == TOTALS):
        return None
    if form.kind is KernelKind.ATTENTION_GRADIENT and signature.name == "slice":
        return _part_taken(signature, place, heavy)
    if form.reduced and heavy is not None and place in OF_ROWS:
        plain = signature.name == "broadcast_to"
        fits = plain or signature.name == "reshape"
        fits = fits and _all_keep_rows(signature, operands, heavy, plain)
        return _place_in_rows(form, signature.shape) if fits else None
    if form.kind not in IN_ROW_SPACE:
        if signature.name == "reshape" and form.kind not in KEEPING_SHAPE:
            return place
        if form.kind is KernelKind.CONTRACTION and _moves_apart(form, signature, place):
            return Place.APART
        half = heavy is not None and place is Place.AFTER and is_half(signature, heavy)
        return Place.HALVED if half else None
    shape = signature.shape
    if signature.name == "reshape" and place in (Place.FULL, Place.RESHAPED):
        return Place.FULL if shape == form.shape else Place.RESHAPED
    if signature.name == "reshape" and place in (Place.KEPT, Place.DROPPED):
        if shape == form.kept_shape:
            return Place.KEPT
        return Place.DROPPED if shape == form.dropped_shape else None
    if signature.name == "broadcast_to" and shape == form.shape:
        return Place.FULL if place is Place.KEPT or form.leading else None
    return None


def _moves_apart(form: Form, signature: Signature, place: Place) -> bool:
    """Whether an operation moves results of a product for a reduction that may follow."""
    if place not in (Place.AFTER, Place.APART) or form.reduced:
        return False
    return signature.name in ("windows", "transpose") and Place.HALVED not in form.places.values()


def _part_taken(signature: Signature, place: Place, heavy: Signature | None) -> Place | None:
    """Where the keys or the values lie that a slice takes of both; None for other slices."""
    if heavy is None or heavy.name != ATTENTION_GRADIENT[2] or place is not Place.AFTER:
        return None
    shape = signature.operand_shapes[0]
    part = takes_part(shape, heavy.operand_shapes[1][-1], signature.values)
    return PARTS[part] if part is not None and shape == heavy.shape else None
