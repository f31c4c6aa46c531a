"""Einstein summation, as transposes, reshapes, matrix products and sums."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from mgn.dialects.mgn.attributes import STRING
from mgn.dialects.mgn.build import Emitter
from mgn.dialects.mgn.composite import composite, element_type_of, shape_of
from mgn.dialects.mgn.operation import NUMERIC, AttributeSpec, OperandSpec
from mgn.dialects.shapes import Shape, ShapeError, broadcast_shapes
from mgn.dialects.types import element_of, tensor

Labels = tuple[str, ...]


@dataclass(frozen=True)
class _Equation:
    """An equation matched to shapes: labels of each operand and of the result, and the size of
    each.

    The axes of `...` are labelled `.1` (the last), `.2`, and so on.
    """

    inputs: tuple[Labels, ...]
    output: Labels
    sizes: dict[str, int]


def _letters(term: str) -> tuple[str, str | None]:
    """The letters before and after the `...` of a term; None after where it has no `...`."""
    before, dots, after = term.partition("...")
    if not all(letter.isascii() and letter.isalpha() for letter in before + after):
        raise ShapeError(f"'{term}' is not a term of letters and one '...'")
    return before, after if dots else None


def _labels(term: str, rank: int | None, ellipsis: int) -> Labels:
    """The labels of a term; its `...` stands for the axes that its letters leave, or for
    `ellipsis`.
    """
    before, after = _letters(term)
    if after is None:
        if rank is not None and rank != len(before):
            raise ShapeError(f"'{term}' does not name the {rank} axes of its operand")
        return tuple(before)
    count = ellipsis if rank is None else rank - len(before) - len(after)
    if count < 0:
        raise ShapeError(f"'{term}' names more than the {rank} axes of its operand")
    return (*before, *(f".{i}" for i in range(count, 0, -1)), *after)


def _match(equation: str, shapes: Sequence[Shape]) -> _Equation:
    """Matches an equation to the shapes of its operands. Raises ShapeError."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(shapes):
        raise ShapeError(f"{len(terms)} terms for {len(shapes)} operands")
    inputs = tuple(_labels(term, len(shape), 0) for term, shape in zip(terms, shapes, strict=True))
    sizes = _sizes(inputs, shapes)
    batch = tuple(sorted((s for s in sizes if s[0] == "."), key=lambda s: -int(s[1:])))
    if arrow:
        output = _labels(right, None, len(batch))
    else:
        named = [label for labels in inputs for label in labels if label[0] != "."]
        output = (*batch, *sorted(label for label in set(named) if named.count(label) == 1))
    if len(set(output)) != len(output):
        raise ShapeError(f"'{right}' names an axis twice")
    for label in output:
        if label not in sizes:
            raise ShapeError(f"'{label}' of the result is in no operand")
    return _Equation(inputs, output, sizes)


def _sizes(inputs: Sequence[Labels], shapes: Sequence[Shape]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for labels, shape in zip(inputs, shapes, strict=True):
        for label, size in zip(labels, shape, strict=True):
            try:
                (sizes[label],) = broadcast_shapes((sizes.get(label, 1),), (size,))
            except ShapeError as error:
                raise ShapeError(f"axis '{label}' has sizes {sizes[label]} and {size}") from error
    return sizes


@dataclass(frozen=True)
class _Term:
    """A value whose axes have distinct labels."""

    value: SSAValue
    labels: Labels


class _Contraction:
    """Builds the steps of an einsum; every method gives a term of simpler labels."""

    def __init__(self, b: Emitter, sizes: dict[str, int], output: Labels) -> None:
        self.b = b
        self.sizes = sizes
        self.output = output

    def term(self, value: SSAValue, labels: Labels) -> _Term:
        """An operand with its repeated labels made diagonals and its broadcast axes dropped."""
        shape = shape_of(value)
        kept = [i for i, label in enumerate(labels) if shape[i] == self.sizes[label]]
        if len(kept) < len(labels):
            value = self.b.reshape(value, [shape[i] for i in kept])
            labels = tuple(labels[i] for i in kept)
        for label in dict.fromkeys(labels):
            while labels.count(label) > 1:
                value, labels = self._diagonal(value, labels, label)
        return _Term(value, labels)

    def _diagonal(self, value: SSAValue, labels: Labels, label: str) -> tuple[SSAValue, Labels]:
        """The diagonal of the first two axes of one label, as a strided slice of both as one."""
        first = labels.index(label)
        second = labels.index(label, first + 1)
        rest = [i for i in range(len(labels)) if i not in (first, second)]
        moved = self.b.transpose(value, (*rest, first, second))
        shape, size = shape_of(moved)[:-2], self.sizes[label]
        flat = self.b.reshape(moved, (*shape, size * size))
        starts, steps = (0,) * (len(shape) + 1), (*(1,) * len(shape), size + 1)
        line = self.b.slice(flat, starts, shape_of(flat), steps)
        return line, (*(labels[i] for i in rest), label)

    def total(self, term: _Term, needed: set[str]) -> _Term:
        """Sums the axes that nothing else needs."""
        axes = [i for i, label in enumerate(term.labels) if label not in needed]
        if not axes:
            return term
        kept = tuple(label for label in term.labels if label in needed)
        return _Term(self.b.sum(term.value, axis=axes), kept)

    def product(self, left: _Term, right: _Term, needed: set[str]) -> _Term:
        """The product of two terms, summed over shared labels that are not needed further; the one
        whose axes come first in the result is the left one.
        """
        if self._first(right, left) < self._first(left, right):
            left, right = right, left
        shared = self._as_returned(label for label in left.labels if label in right.labels)
        summed = [label for label in shared if label not in needed]
        batch = [label for label in shared if label in needed]
        rows = self._as_returned(label for label in left.labels if label not in shared)
        columns = self._as_returned(label for label in right.labels if label not in shared)
        result = (*batch, *rows, *columns)
        if not summed:
            return _Term(
                self.b.mul(self._spread(left, result), self._spread(right, result)), result
            )
        a, transpose_a = self._matrix(left, batch, rows, summed)
        c, transpose_b = self._matrix(right, batch, columns, summed)
        out = self.b.matmul(a, c, transpose_a=transpose_a, transpose_b=not transpose_b)
        return _Term(self._reshaped(out, [self.sizes[label] for label in result]), result)

    def _matrix(
        self, term: _Term, batch: list[str], free: list[str], summed: list[str]
    ) -> tuple[SSAValue, bool]:
        """A term as `[*batch, free, summed]`, or the other way round (True) where its last axis,
        which stays where it lies, is a free one.
        """
        turned = term.labels[-1] in free
        order = (*batch, *summed, *free) if turned else (*batch, *free, *summed)
        value = self.ordered(term, order)
        sizes = [self._count(free), self._count(summed)]
        shape = [*(self.sizes[label] for label in batch), *(sizes[::-1] if turned else sizes)]
        return self._reshaped(value, shape), turned

    def _first(self, term: _Term, other: _Term) -> int:
        """The place in the result of the first axis that only one of two terms has."""
        own = (label for label in term.labels if label not in other.labels)
        places = [self.output.index(label) for label in own if label in self.output]
        return min(places, default=len(self.output))

    def _as_returned(self, labels: Iterable[str]) -> list[str]:
        """Labels in the order of the result, then those that it lacks."""
        last = len(self.output)
        place = {label: i for i, label in enumerate(self.output)}
        return sorted(labels, key=lambda label: place.get(label, last))

    def ordered(self, term: _Term, labels: Labels) -> SSAValue:
        """A term's value with its axes in another order."""
        if term.labels == labels:
            return term.value
        return self.b.transpose(term.value, [term.labels.index(label) for label in labels])

    def _spread(self, term: _Term, labels: Labels) -> SSAValue:
        """A term's value that broadcasts against axes `labels`."""
        own = tuple(label for label in labels if label in term.labels)
        shape = [self.sizes[label] if label in own else 1 for label in labels]
        return self._reshaped(self.ordered(term, own), shape)

    def _reshaped(self, value: SSAValue, shape: Sequence[int]) -> SSAValue:
        return value if shape_of(value) == tuple(shape) else self.b.reshape(value, shape)

    def _count(self, labels: Sequence[str]) -> int:
        return math.prod(self.sizes[label] for label in labels)


def _infer_einsum(operands: Sequence[TensorType], equation: str) -> TensorType:
    match = _match(equation, [type.get_shape() for type in operands])
    return tensor(element_of(operands[0]), [match.sizes[label] for label in match.output])


@composite(
    "einsum",
    (
        AttributeSpec("equation", STRING),
        OperandSpec("operands", NUMERIC, variadic=True, starred=True),
    ),
    _infer_einsum,
)
def einsum(b: Emitter, operands: Sequence[SSAValue], equation: str) -> SSAValue:
    """`y = einsum("bhqd,bhkd->bhqk", a, b)`: the sum of products over labels missing from the
    result.

    Shape: the sizes of the result's labels; without `->`, the labels that occur once, sorted, after
    those of `...`. A label twice in a term takes its diagonal; sizes of 1 broadcast, also in `...`.
    Products are formed from left to right, each as one matmul. Half precision is computed in f32
    and rounded once. Errors: terms that do not fit the operands, unequal sizes, an unknown or
    repeated label in the result.
    """
    row = element_type_of(operands[0])
    wide = row.is_float and row.bits == 16 and len(operands) > 1
    values = [b.cast(value, "f32") for value in operands] if wide else operands
    result = _contract(b, values, _match(equation, [shape_of(value) for value in operands]))
    if wide:
        return b.cast(result, row)
    return b.identity(result) if result in operands else result


def _contract(b: Emitter, values: Sequence[SSAValue], match: _Equation) -> SSAValue:
    steps = _Contraction(b, match.sizes, match.output)
    terms = [steps.term(*pair) for pair in zip(values, match.inputs, strict=True)]
    result: _Term | None = None
    for i, term in enumerate(terms):
        later = {label for other in terms[i + 1 :] for label in other.labels} | set(match.output)
        before = set[str]() if result is None else set(result.labels)
        own = steps.total(term, later | before)
        result = own if result is None else _joined(steps, result, own, later)
    assert result is not None
    return steps.ordered(steps.total(result, set(match.output)), match.output)


def _joined(steps: _Contraction, left: _Term, right: _Term, needed: set[str]) -> _Term:
    """The product of what came before with the next operand."""
    return steps.product(steps.total(left, needed | set(right.labels)), right, needed)
