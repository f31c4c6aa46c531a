"""What rules may ask of a match.

In: `Operand`s (a value's type and, where it is one, its constant) and attribute values. Out: true
or false.
"""

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import TensorType

from mgn.dialects.mgn.operations.rows.digits import key_bits
from mgn.dialects.types import ElementType, Family, element_of
from mgn.passes.saturate.encoding.definitions import Definition
from mgn.passes.saturate.rules import contracted_sums, layouts, magnitudes, rotary_tables


@dataclass(frozen=True)
class Operand:
    """What a predicate sees of a matched value. `constant` is set where the rule asks for one."""

    type: TensorType
    constant: float | None = None
    definition: Definition | None = None

    @property
    def element(self) -> ElementType:
        return element_of(self.type)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.type.get_shape())


@dataclass(frozen=True)
class Predicate:
    """A row: what a predicate says of its arguments, whether it holds of some, and whether it asks
    for the first to be a constant.
    """

    says: str
    holds: Callable[..., bool]
    of_constant: bool = False

    @property
    def arguments(self) -> str:
        """The names of its arguments, as in a call."""
        return f"({', '.join(inspect.signature(self.holds).parameters)})"


LONGEST_RUN = 4096
"""Elements of the longest row that a group of a GPU sorts at once."""

_MANTISSA = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
_EXPONENT = {"f64": 11, "f32": 8, "f16": 5, "bf16": 8}


def _holds_all(wide: ElementType, narrow: ElementType) -> bool:
    """Whether every value of `narrow` is a value of `wide`."""
    if wide == narrow:
        return True
    if narrow.is_float:
        return (
            wide.is_float
            and _MANTISSA[wide.name] >= _MANTISSA[narrow.name]
            and _EXPONENT[wide.name] >= _EXPONENT[narrow.name]
        )
    if narrow.family is Family.BOOL:
        return wide.is_float or wide.is_integer
    if wide.is_float:
        return narrow.bits <= _MANTISSA[wide.name]
    if wide.family is Family.SIGNED:
        return wide.bits > narrow.bits or (
            narrow.family is Family.SIGNED and wide.bits >= narrow.bits
        )
    return (
        wide.family is Family.UNSIGNED
        and narrow.family is Family.UNSIGNED
        and wide.bits >= narrow.bits
    )


def _leaves_no_trace(inner: ElementType, outer: ElementType, given: ElementType) -> bool:
    """Whether a cast through `inner` to `outer` is the cast itself.

    Between integers a cast wraps around, from a float it saturates.
    """
    saturates = inner.is_float and given.is_integer and outer.is_integer
    return _holds_all(inner, given) and (not saturates or _holds_all(outer, given))


def _swaps_last_two(perm: tuple[int, ...]) -> bool:
    rank = len(perm)
    return rank >= 2 and perm == (*range(rank - 2), rank - 1, rank - 2)


def _products_of(
    a: Operand, b: Operand, c: Operand, turned_a: bool, turned_b: bool, turned_c: bool
) -> tuple[int, int] | None:
    """Multiplications of `(A B) C` and of `A (B C)`; None where they are not three matrices."""
    shapes = [tuple(item.type.get_shape()) for item in (a, b, c)]
    if any(len(shape) != 2 for shape in shapes):
        return None
    turned = (turned_a, turned_b, turned_c)
    (m, k), (_, n), (_, p) = (
        shape[::-1] if turn else shape for shape, turn in zip(shapes, turned, strict=True)
    )
    return m * k * n + m * n * p, k * n * p + m * k * p


def _less_work_from_the_right(
    a: Operand, b: Operand, c: Operand, turned_a: bool, turned_b: bool, turned_c: bool
) -> bool:
    work = _products_of(a, b, c, turned_a, turned_b, turned_c)
    return work is not None and work[1] < work[0]


def _less_work_from_the_left(
    a: Operand, b: Operand, c: Operand, turned_a: bool, turned_b: bool, turned_c: bool
) -> bool:
    work = _products_of(a, b, c, turned_a, turned_b, turned_c)
    return work is not None and work[0] < work[1]


def _thin_rows(
    a: Operand, b: Operand, c: Operand, turned_a: bool, turned_b: bool, turned_c: bool
) -> bool:
    """Whether `(A B) C` is less work than `B C` alone, which `A (B C + …)` adds to a matrix."""
    work = _products_of(a, b, c, turned_a, turned_b, turned_c)
    if work is None:
        return False
    m, k = a.shape[::-1] if turned_a else a.shape
    n = c.shape[0] if turned_c else c.shape[1]
    return work[0] < work[1] - m * k * n


def _one_column(x: Operand) -> bool:
    return x.type.get_shape()[-1:] in ((), (1,))


def _one_row(x: Operand) -> bool:
    return x.type.get_shape()[-2:-1] in ((), (1,))


def _keeps_order(x: Operand, perm: tuple[int, ...]) -> bool:
    moved = [axis for axis in perm if x.shape[axis] != 1]
    return moved == sorted(moved)


def _thin_batches(a: Operand, b: Operand) -> bool:
    """Whether many products of few rows share their right side."""
    *batches, rows, _ = a.shape if len(a.shape) > 2 else (1, 1, 1)
    return math.prod(batches) > 1 and rows < layouts.THIN and len(b.shape) == 2


def _unshifted(x: Operand) -> bool:
    """Whether a value is not some other one less its maximum."""
    definition = x.definition
    if definition is None or definition.node is None or definition.node.name != "sub":
        return True
    subtracted = definition.operands[1].node
    return subtracted is None or subtracted.name != "max_reduce"


def _parameters(x: Operand) -> bool:
    return x.definition is not None and x.definition.is_parameters


def _power_of_two(x: Operand) -> bool:
    value = x.constant
    return value is not None and math.isfinite(value) and abs(math.frexp(value)[0]) == 0.5


def _invertible(x: Operand) -> bool:
    """Whether a constant and its reciprocal are normal, so that no device flushes either to 0."""
    value = x.constant
    if not value or not math.isfinite(value) or not x.element.is_float:
        return False
    smallest = float(ml_dtypes.finfo(x.element.dtype).smallest_normal)
    return min(abs(value), 1 / abs(value)) >= smallest


def _same_sign(c: Operand, d: Operand) -> bool:
    """Whether two constants add up to one that is no smaller in size; zeros have either sign."""
    return c.constant is not None and d.constant is not None and c.constant * d.constant >= 0


def _computed(x: Operand) -> bool:
    return x.definition is not None and not x.definition.is_constant


def _is_table_of(w: Operand, ids: Operand, turned: bool) -> bool:
    shape, dtype = w.type.get_shape(), element_of(ids.type).dtype
    if len(shape) != 2 or 0 in shape or dtype is None or not ids.type.get_shape():
        return False
    return shape[1 if turned else 0] - 1 <= np.iinfo(dtype).max


PREDICATES: dict[str, Predicate] = {
    "constant": Predicate(
        "x is one number everywhere, known when compiling",
        lambda x: x.constant is not None,
        of_constant=True,
    ),
    "parameters": Predicate("x is computed from parameters and constants alone", _parameters),
    "given": Predicate(
        "the program has x, and no rule had to make it",
        lambda x: x.definition is None or x.definition.is_given,
    ),
    "read_once": Predicate(
        "x has one user", lambda x: x.definition is None or x.definition.readers < 2
    ),
    "computed": Predicate("x is not computed from constants alone", _computed),
    "scalar": Predicate("x has no axes", lambda x: x.type.get_shape() == ()),
    "nonzero": Predicate(
        "the constant x is finite and not 0",
        lambda x: x.constant not in (None, 0) and math.isfinite(x.constant),
        of_constant=True,
    ),
    "positive": Predicate(
        "the constant x is finite and more than 0",
        lambda x: x.constant is not None and 0 < x.constant < math.inf,
        of_constant=True,
    ),
    "negative": Predicate(
        "the constant x is finite and less than 0",
        lambda x: x.constant is not None and -math.inf < x.constant < 0,
        of_constant=True,
    ),
    "finite": Predicate(
        "the constant x is finite",
        lambda x: x.constant is not None and math.isfinite(x.constant),
        of_constant=True,
    ),
    "invertible": Predicate(
        "the constant x and its inverse are normal numbers of its type",
        _invertible,
        of_constant=True,
    ),
    "moderate": Predicate(
        "the constant x is 0, or from 2⁻⁴⁰ to 2⁴⁰ but for its sign",
        lambda x: x.constant == 0 or 2.0**-40 <= abs(x.constant or 0) <= 2.0**40,
        of_constant=True,
    ),
    "power_of_two": Predicate(
        "the constant x is a power of two, of either sign", _power_of_two, of_constant=True
    ),
    "floating": Predicate("x has a float element type", lambda x: x.element.is_float),
    "single": Predicate("x is f32", lambda x: x.element.name == "f32"),
    "wide": Predicate("x is f32 or f64", lambda x: x.element.name in ("f32", "f64")),
    "half": Predicate(
        "the element type is f16 or bf16", lambda element: element.name in ("f16", "bf16")
    ),
    "integer": Predicate("x has an integer element type", lambda x: x.element.is_integer),
    "signed": Predicate(
        "x has any element type but an unsigned one",
        lambda x: x.element.family is not Family.UNSIGNED,
    ),
    "same_type": Predicate(
        "x and y have one shape and element type", lambda x, y: x.type == y.type
    ),
    "matrix": Predicate("x has two axes or more", lambda x: len(x.type.get_shape()) >= 2),
    "ends_with": Predicate(
        "the last axis of the shape s has the size n", lambda s, n: tuple(s[-1:]) == (n,)
    ),
    "is_run": Predicate(
        "x has up to 4096 elements along the axis a, whose keys have 32 bits or fewer",
        lambda x, axis: x.shape[axis] <= LONGEST_RUN and key_bits(x.element) <= 32,
    ),
    "is_table_of": Predicate(
        "w is a matrix with rows, or columns, that ids of the type of i can count",
        _is_table_of,
    ),
    "at_most_one": Predicate(
        "the constant x is from -1 to 1",
        lambda x: x.constant is not None and abs(x.constant) <= 1,
        of_constant=True,
    ),
    "at_least_one": Predicate(
        "the constant x is finite, and 1 or more but for its sign",
        lambda x: x.constant is not None and 1 <= abs(x.constant) < math.inf,
        of_constant=True,
    ),
    "gentle": Predicate(
        "the constant x is from 1/8 to 1 but for its sign",
        lambda x: x.constant is not None and 0.125 <= abs(x.constant) <= 1,
        of_constant=True,
    ),
    "gentle_divisor": Predicate(
        "the constant x is from 1 to 8 but for its sign",
        lambda x: x.constant is not None and 1 <= abs(x.constant) <= 8,
        of_constant=True,
    ),
    "same_sign": Predicate(
        "no constant c is below 0 where the constant d is above it, nor the other way round",
        _same_sign,
        of_constant=True,
    ),
    "moderate_parameters": Predicate(
        "x, y and x y are moderate if no element of a parameter is above 2²⁰, as is checked when "
        "parameters are set",
        lambda x, y: magnitudes.are_moderate(x.definition, y.definition),
    ),
    "batched": Predicate("x has more than two axes", lambda x: len(x.shape) > 2),
    "vector": Predicate(
        "x has several elements, all along its last axis",
        lambda x: math.prod(x.shape) == x.shape[-1] > 1 if x.shape else False,
    ),
    "one_column": Predicate("the last axis of x has size 1, or there is none", _one_column),
    "several_columns": Predicate(
        "the last axis of x has another size", lambda x: not _one_column(x)
    ),
    "one_row": Predicate("the last axis but one of x has size 1, or there is none", _one_row),
    "row_statistic": Predicate(
        "r has one element for each row of x",
        lambda x, r: x.shape[-1:] != (1,) and r.shape == (*x.shape[:-1], 1),
    ),
    "same_batches": Predicate(
        "x and y have the same leading axes, before the last two",
        lambda x, y: x.shape[:-2] == y.shape[:-2],
    ),
    "counts": Predicate(
        "the constant n is how many elements of x lie along these axes",
        lambda n, x, axes: n.constant == math.prod(x.shape[axis] for axis in axes),
        of_constant=True,
    ),
    "reduces_last": Predicate(
        "the axes are the last one of x alone", lambda axes, x: axes == (len(x.shape) - 1,)
    ),
    "last_axis": Predicate(
        "the axis is the last one of a shape", lambda axis, shape: axis == len(shape) - 1
    ),
    "last_axis_but_one": Predicate(
        "the axis is the last one but one of x", lambda axis, x: axis == len(x.shape) - 2
    ),
    "single_axis": Predicate("there is one axis", lambda axes: len(axes) == 1),
    "swaps_last_two": Predicate(
        "a permutation swaps the last two axes, and no others", _swaps_last_two
    ),
    "identity_permutation": Predicate(
        "a permutation moves nothing", lambda perm: perm == tuple(range(len(perm)))
    ),
    "keeps_order": Predicate("a permutation of x moves axes of size 1 alone", _keeps_order),
    "leads_with_ones": Predicate(
        "a shape is that of x with axes of size 1 before it",
        lambda x, shape: (
            len(shape) > len(x.shape) and shape == ((1,) * (len(shape) - len(x.shape)) + x.shape)
        ),
    ),
    "leaves_no_trace": Predicate(
        "a cast of x to one element type, then to another, is a cast to that one",
        lambda inner, outer, x: _leaves_no_trace(inner, outer, x.element),
    ),
    "unshifted": Predicate("x is not some value less its maximum", _unshifted),
    "thin_batches": Predicate("a b is many products of few rows with one matrix", _thin_batches),
    "thin_rows": Predicate(
        "(a b) c is less work than b c alone; the flags say which are turned", _thin_rows
    ),
    "less_work_from_the_right": Predicate(
        "a (b c) is less work than (a b) c", _less_work_from_the_right
    ),
    "less_work_from_the_left": Predicate(
        "(a b) c is less work than a (b c)", _less_work_from_the_left
    ),
    "less_work_from_the_right_turned": Predicate(
        "the same of a turned product",
        lambda a, b, c, m, n, q: _less_work_from_the_right(b, a, c, not n, not m, q),
    ),
    "less_work_from_the_left_turned": Predicate(
        "the same of a turned product",
        lambda a, b, c, m, n, q: _less_work_from_the_left(a, c, b, m, not q, not n),
    ),
    "contracts": Predicate(
        "the sums of a b along the axes are products of matrices, of which a is the left one",
        contracted_sums.contracts,
    ),
    "far": Predicate(
        "the constant x hides a score: -1e9 or less",
        lambda x: x.constant is not None and x.constant <= layouts.FAR,
        of_constant=True,
    ),
    "farthest": Predicate(
        "the constant x hides a score that it is added to: -1e30 or less",
        lambda x: x.constant is not None and x.constant <= layouts.FARTHEST,
        of_constant=True,
    ),
    "sees_a_key": Predicate(
        "the mask m is known, and no row of it is all false", layouts.sees_a_key
    ),
    "leaves_a_key": Predicate(
        "the mask m is known, and no row of it is all true", layouts.leaves_a_key
    ),
    "hides": Predicate(
        "x b + m is known to be x, or a number that hides it; m has a sign", layouts.hides
    ),
    "is_window": Predicate(
        "the bias m is known to be attention's own mask", lambda m: layouts.is_window(m)
    ),
    "is_far_window": Predicate(
        "the same, where -1e9 hides a score", lambda m: layouts.is_window(m, layouts.FAR)
    ),
    "usual_scores": Predicate(
        "scores of attention, and biases beside a mask, are taken to be less than 2⁷⁰ in size: "
        "these values, or products of the first two",
        lambda *x: True,
    ),
    "per_filter": Predicate(
        "x has one number for each filter of the weights w of a convolution",
        lambda x, w: x.shape == (w.shape[0], *(1,) * (len(w.shape) - 2)),
    ),
    "per_column": Predicate(
        "x has one number for each row of the matrix w",
        lambda x, w: len(w.shape) == 2 and x.shape == w.shape[:1],
    ),
    "rows_last": Predicate(
        "the last axis of the shape s has as many elements as the matrix w has rows",
        lambda s, w: tuple(s[-1:]) == w.shape[:1],
    ),
    "usual_channels": Predicate(
        "what a convolution reads, its weights and the scales and shifts of its results are taken "
        "to be less than 2²⁰ in size: these values",
        lambda *x: True,
    ),
    "small_scores": Predicate("the same, less than 2²⁶", lambda *x: True),
    "spans": Predicate(
        "m has a row for each of q and a column for each of k",
        lambda m, q, k: m.shape[-2:] == (q.shape[-2], k.shape[-2]),
    ),
    "splits": Predicate(
        "so many axes of q, k and v before the last two are of heads", layouts.splits
    ),
    "share_keys": Predicate("there are more heads than heads of keys", layouts.share_keys),
    "keys_shared_by": Predicate(
        "so many heads share each head of keys, or more than a few", layouts.keys_shared_by
    ),
    "repeats": Predicate(
        "a reshape, broadcast and reshape repeats each element along an axis", layouts.repeats
    ),
    "repeats_merged": Predicate(
        "a reshape, broadcast and reshape repeats each head", layouts.repeats_merged
    ),
    "same_leading": Predicate(
        "two shapes are the same but for so many last axes",
        lambda left, right, last: left[:-last] == right[:-last],
    ),
    "merges_batches": Predicate(
        "a reshape of x merges leading axes, and leaves the last two", layouts.merges_batches
    ),
    "merges_rows": Predicate(
        "reshapes merge two axes of rows of a product, and part them again", layouts.merges_rows
    ),
    "joins_rows": Predicate("one axis of two of rows of x, y has two or less", layouts.joins_rows),
    "joins_long_rows": Predicate("the same, not of many short batches", layouts.joins_long_rows),
    "turns_rows": Predicate(
        "a permutation moves rows, and axes that b broadcasts over", layouts.turns_rows
    ),
    "keeps_last": Predicate("a permutation leaves the last axis", layouts.keeps_last),
    "stays_in_order": Predicate(
        "the axes of x that are not 1 keep their order as a permutation is undone",
        layouts.stays_in_order,
    ),
    "repeats_heads": Predicate(
        "a broadcast repeats each head, and a permutation turns heads inward", layouts.repeats_heads
    ),
    "merges_axes": Predicate("a reshape of x merges axes side by side", layouts.merges_axes),
    "comes_back": Predicate(
        "axes of x that are not 1 are in order again behind a permutation, a reshape that adds or "
        "takes away axes of 1, and another permutation",
        layouts.comes_back,
    ),
    "is_half": Predicate(
        "a slice is the first (0) or second half (1) of the last axis of x", rotary_tables.is_half
    ),
    "is_every_other": Predicate(
        "a slice is the even (0) or odd elements (1) of the last axis of x",
        rotary_tables.is_every_other,
    ),
    "takes_one_of_pairs": Predicate(
        "a slice of a shape takes one of each pair along the last axis",
        rotary_tables.takes_one_of_pairs,
    ),
    "stacks": Predicate(
        "halves of the last axis of this shape lie along a new last axis of x", rotary_tables.stacks
    ),
    "turns_heads": Predicate(
        "a permutation takes [.., S, heads, d] of x to [.., heads, S, d]", rotary_tables.turns_heads
    ),
}
"""Predicates by name, those of any use first. Arguments are matched values as `Operand`, or
attribute values.
"""
