"""Core movement as index maps: the value at an index is an operand's value at another index.

In: a node and the index of an element of its result. Out: the value there, through the evaluator.
Where no operand has the element (padding) or one of several does (concat), the bounds are tested:
a test that all lanes share becomes a branch, any other a choice of safe reads.
"""

from collections.abc import Callable
from typing import Protocol

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32, i64
from xdsl.ir import SSAValue

from mgn.dialects.fusion.forms import MOVED
from mgn.passes.kernels.body import Indices, Node
from mgn.passes.kernels.index import ZERO, Counter, Index, delinearised, lanes, linear, of
from mgn.passes.kernels.index_maps import MOVES, first_of_run
from mgn.passes.lower_kernels.core.emission import Code
from mgn.passes.lower_kernels.core.pure_code import INDEX, lane_count, memory_type, scalar_type
from mgn.passes.lower_kernels.core.scalar import is_unsigned


class Elements(Protocol):
    """What a row asks of the evaluator: the elements of nodes, the code that computes them, and how
    many lanes there are.
    """

    code: Code
    lanes: int

    def at(self, node: Node, index: Indices) -> SSAValue:
        """The value of a node at an index."""
        ...


MOST_WHOLE = 8
"""Parts of a concatenation up to which vectors are told apart that lie in one of them."""

Row = Callable[[Elements, Node, Indices], SSAValue]


def _lanes_apart(elements: Elements, index: Indices) -> int:
    """The lanes that an element is found for: one where all lanes see the same, whose value others
    with fewer lanes may read again.
    """
    return elements.lanes if any(part.varies for part in index) else 1


def _moved(elements: Elements, node: Node, index: Indices) -> SSAValue:
    return elements.at(node.operands[0], MOVES[node.name](node, index))


def _reshape(elements: Elements, node: Node, index: Indices) -> SSAValue:
    (source,) = node.operands
    moved = MOVES[node.name](node, index)
    count, inner = elements.lanes, source.shape[-1] if source.shape else 1
    place = linear(index, node.shape)
    turns = place.lane_stride == 1 and any(part.lane_stride is None for part in moved)
    if not turns or inner < count or not _slides(source):
        return elements.at(source, moved)
    return _along_a_line(elements, source, place.at_lane(0), moved)


def _slides(node: Node) -> bool:
    """Whether a value is windows, moved: an element of one takes some steps to find."""
    while node.name in MOVED:
        if node.name == "windows":
            return True
        (node,) = node.operands
    return False


def _along_a_line(elements: Elements, source: Node, first: Index, moved: Indices) -> SSAValue:
    """A vector of elements from a place on: neighbours, unless it goes beyond the innermost axis,
    which few do.
    """
    code, count = elements.code, elements.lanes
    *outer, inner = delinearised(first, source.shape)
    last = source.shape[-1] - count
    starts = code.known(inner, last + 1)

    def line() -> list[SSAValue]:
        return [code.spread(elements.at(source, (*outer, starts + lanes(count))), count)]

    def lines() -> list[SSAValue]:
        return [code.spread(elements.at(source, moved), count)]

    return code.branch(code.is_below(inner, last + 1, 1), line, lines)[0]


def _pad(elements: Elements, node: Node, index: Indices) -> SSAValue:
    """The source's element, or the padding: tests that all lanes share come first, then whether all
    lanes are inside, then each by itself.
    """
    (source,) = node.operands
    code, count = elements.code, _lanes_apart(elements, index)
    value = code.constant(_number(node), memory_type(node.element))
    if source.count == 0:
        return value
    shared: list[SSAValue] = []
    own: list[tuple[Index, int, Index, int]] = []
    moved: list[Index] = []
    for part, (low, _), size in zip(index, node.values["padding"], source.shape, strict=True):
        inner = part - low
        moved.append(inner)
        before, inside = part.below(low), inner.below(size)
        if before is True or inside is False:
            return value
        if part.varies:
            own += [] if before is False and inside is True else [(part, low, inner, size)]
        else:
            shared += _both(code, part, low, inner, size, 1)

    def masked() -> list[SSAValue]:
        clamped = tuple(
            part.clamp(0, size - 1) for part, size in zip(moved, source.shape, strict=True)
        )
        found = elements.at(source, clamped)
        tests = [test for item in own for test in _both(code, *item, count)]
        if tests:
            found = code.select(code.all_of(tests), found, code.spread(value, count))
        return [code.spread(found, count)]

    def inside() -> list[SSAValue]:
        whole = _lies_inside(code, tuple(moved), source.shape, count) if own else None
        if whole is None:
            return masked()
        return code.branch(
            whole, lambda: [code.spread(elements.at(source, tuple(moved)), count)], masked
        )

    if not shared:
        (found,) = inside()
        return found
    return code.branch(code.all_of(shared), inside, lambda: [code.spread(value, count)])[0]


def chosen_padding(elements: Elements, node: Node, index: Indices) -> SSAValue:
    """The same without branches: outside, the nearest element is read, and padding is chosen."""
    (source,) = node.operands
    code = elements.code
    value = code.constant(_number(node), memory_type(node.element))
    if source.count == 0:
        return value
    tests: list[SSAValue] = []
    moved: list[Index] = []
    for part, (low, _), size in zip(index, node.values["padding"], source.shape, strict=True):
        inner = part - low
        if part.below(low) is True or inner.below(size) is False:
            return value
        tests += _both(code, part, low, inner, size, elements.lanes if part.varies else 1)
        moved.append(inner.clamp(0, size - 1))
    found = elements.at(source, tuple(moved))
    return code.select(code.all_of(tests), found, value)


def _number(node: Node) -> float | int:
    value = node.values["value"]
    if node.element.is_float:
        return value
    return int(value != 0) if node.element.name == "bool" else int(value)


def _both(code: Code, part: Index, low: int, inner: Index, size: int, count: int) -> list[SSAValue]:
    """The tests whether an index is inside an operand that is padded."""
    before, inside = code.is_below(part, low, count), code.is_below(inner, size, count)
    tests = [] if isinstance(before, bool) else [_negated(code, before)]
    return tests if isinstance(inside, bool) else [*tests, inside]


def _negated(code: Code, test: SSAValue) -> SSAValue:
    one = code.constant(1, scalar_type(test), lane_count(test))
    return code.binary(arith.XOrIOp, test, one)


def _lies_inside(
    code: Code, index: Indices, shape: tuple[int, ...], count: int
) -> SSAValue | bool | None:
    """Whether all lanes of a vector are inside, by its ends; None where they do not tell."""
    tests: list[SSAValue | bool] = []
    for part, size in zip(index, shape, strict=True):
        if not part.varies:
            continue
        if part.lane_stride is None:
            return None
        first, last = sorted((part.at_lane(0), part.at_lane(count - 1)), key=lambda end: end.low)
        outside, inside = code.is_below(first, 0, 1), code.is_below(last, size, 1)
        if outside is True or inside is False:
            return None
        tests += [inside] if outside is False else [_negated(code, outside), inside]
    return code.all_of(tests) if tests else None


def _concat(elements: Elements, node: Node, index: Indices) -> SSAValue:
    axis = node.values["axis"]
    parts: list[tuple[Node, int]] = []
    start = 0
    for operand in node.operands:
        if operand.shape[axis]:
            parts.append((operand, start))
        start += operand.shape[axis]
    return _choose_part(elements, parts, axis, index)


def _inside(index: Index, size: int, count: int) -> Index:
    """An index, clamped to a part of so many elements. A vector of neighbours that lies in one part
    stays a vector of neighbours.
    """
    if count > 1 and index.lane_stride == 1 and size % count == 0:
        first = index.at_lane(0)
        if first.multiple % count == 0:
            return (first // count).clamp(0, size // count - 1) * count + lanes(count)
    return index.clamp(0, size - 1)


def _choose_part(
    elements: Elements, parts: list[tuple[Node, int]], axis: int, index: Indices
) -> SSAValue:
    """The value of the part that has the element. A binary search finds the part: many parts take
    few tests, and branches are not nested deeply. A vector of neighbours that one of few parts has
    is read from it as a vector.
    """
    if len(parts) > MOST_WHOLE or index[axis].lane_stride in (0, None):
        return _choose_parts_apart(elements, parts, axis, index)
    return _choose_whole_part(elements, parts, axis, index)


def _choose_whole_part(
    elements: Elements, parts: list[tuple[Node, int]], axis: int, index: Indices
) -> SSAValue:
    """The same for a vector whose ends say which part has all of it."""
    code, count = elements.code, _lanes_apart(elements, index)
    if len(parts) == 1:
        operand, start = parts[0]
        moved = (*index[:axis], index[axis] - start, *index[axis + 1 :])
        return elements.at(operand, moved)
    middle = len(parts) // 2
    bound = parts[middle][1]

    def of(chosen: list[tuple[Node, int]]) -> list[SSAValue]:
        return [code.spread(_choose_whole_part(elements, chosen, axis, index), count)]

    def of_both() -> list[SSAValue]:
        return [code.spread(_choose_parts_apart(elements, parts, axis, index), count)]

    known = index[axis].below(bound)
    if isinstance(known, bool):
        return of(parts[:middle] if known else parts[middle:])[0]
    if not known[0].varies:
        test = code.is_below(index[axis], bound, count)
        return code.branch(test, lambda: of(parts[:middle]), lambda: of(parts[middle:]))[0]
    ends = [index[axis].at_lane(lane) for lane in (0, count - 1)]
    first, last = sorted(ends, key=lambda end: end.low)
    before, behind = code.is_below(last, bound, 1), _negated_or_known(code, first, bound)
    return code.branch(
        before,
        lambda: of(parts[:middle]),
        lambda: code.branch(behind, lambda: of(parts[middle:]), of_both),
    )[0]


def _negated_or_known(code: Code, index: Index, bound: int) -> SSAValue | bool:
    """Whether an index is not below a bound."""
    below = code.is_below(index, bound, 1)
    return not below if isinstance(below, bool) else _negated(code, below)


def _choose_parts_apart(
    elements: Elements, parts: list[tuple[Node, int]], axis: int, index: Indices
) -> SSAValue:
    """The same where each lane may see another part."""
    code, count = elements.code, _lanes_apart(elements, index)
    if len(parts) == 1:
        operand, start = parts[0]
        moved = list(index)
        moved[axis] = _inside(index[axis] - start, operand.shape[axis], count)
        return elements.at(operand, tuple(moved))
    middle = len(parts) // 2
    lower, upper = parts[:middle], parts[middle:]
    test = code.is_below(index[axis], upper[0][1], count)
    if isinstance(test, bool):
        return _choose_parts_apart(elements, lower if test else upper, axis, index)

    def before() -> SSAValue:
        return code.spread(_choose_parts_apart(elements, lower, axis, index), count)

    def behind() -> SSAValue:
        return code.spread(_choose_parts_apart(elements, upper, axis, index), count)

    if lane_count(test) == 1:
        return code.branch(test, lambda: [before()], lambda: [behind()])[0]
    return code.select(test, before(), behind())


def _gather(elements: Elements, node: Node, index: Indices) -> SSAValue:
    table, ids = node.operands
    axis, rank = node.values["axis"], len(ids.shape)
    run = first_of_run(node)
    if run is not None:
        start, most = run
        first = elements.at(start, (ZERO,) * len(start.shape))
        number = elements.code.convert("index_cast", first, INDEX)
        picked = of(Counter(number, 0, most)) + index[axis]
    else:
        number = elements.at(ids, index[axis : axis + rank])
        limit = table.shape[axis] - 1
        picked = of(Counter(clamped_id(elements, ids, number, limit), 0, limit, lane_count(number)))
    return elements.at(table, (*index[:axis], picked, *index[axis + rank :]))


def clamped_id(elements: Elements, ids: Node, number: SSAValue, limit: int) -> SSAValue:
    """An id inside the axis: an index for a scalar, i32 or i64 lanes for a vector."""
    code, count = elements.code, lane_count(number)
    wide = i64 if ids.element.bits == 64 or ids.element.name == "u32" or limit >= 1 << 31 else i32
    if ids.element.bits < wide.width.data:
        number = code.convert("extui" if is_unsigned(ids.element) else "extsi", number, wide)
    low = code.binary(arith.MaxSIOp, number, code.constant(0, wide, count))
    number = code.binary(arith.MinSIOp, low, code.constant(limit, wide, count))
    return number if count > 1 else code.convert("index_cast", number, INDEX)


def _run_bounds(elements: Elements, node: Node, index: Indices) -> SSAValue:
    """How many ids in order are below a number, by bisection."""
    (ids,), axis, code = node.operands, node.values["axis"], elements.code
    count, number = ids.shape[axis], index[axis]
    lanes_of = _lanes_apart(elements, index)
    type = code.index_type(number)

    def value_of(part: Index) -> SSAValue:
        if part.varies:
            return code.lanes_index(part, lanes_of, type)
        return code.spread(code.convert("index_cast", code.index(part), type), lanes_of)

    wanted = value_of(number)
    zero, one, last = (code.constant(n, type, lanes_of) for n in (0, 1, max(count - 1, 0)))
    if not count:
        return code.constant(0, i32, lanes_of)

    def turn(_: Index, held: list[SSAValue]) -> list[SSAValue]:
        low, high = held
        middle = code.binary(arith.ShRUIOp, code.binary(arith.AddiOp, low, high), one)
        place = code.binary(arith.MinSIOp, middle, last)
        if lanes_of == 1:
            place = code.convert("index_cast", place, INDEX)
        picked = of(Counter(place, 0, count - 1, lanes_of))
        value = elements.at(ids, (*index[:axis], picked, *index[axis + 1 :]))
        wide = scalar_type(value)
        sought = wanted if wide == type else code.convert("extsi", wanted, wide)
        below = code.compare_integers("slt", code.spread(value, lanes_of), sought)
        open_ = code.compare_integers("slt", low, high)
        below = code.binary(arith.AndIOp, below, open_)
        return [
            code.select(below, code.binary(arith.AddiOp, middle, one), low),
            code.select(below, high, middle),
        ]

    start = [zero, code.constant(count, type, lanes_of)]
    found = code.loop(0, count.bit_length(), turn, start)[0]
    return found if type == i32 else code.convert("trunci", found, i32)


MOVEMENT_ROWS: dict[str, Row] = {
    **dict.fromkeys(MOVES, _moved),
    "reshape": _reshape,
    "pad": _pad,
    "concat": _concat,
    "gather": _gather,
    "run_bounds": _run_bounds,
}
"""Every core movement and indexing operation."""
