"""Which bodies each kind of `fusion.kernel` may have: the contract of the fuser and the templates.

In: a kernel. Out: nothing, or a `VerifyException` that names the operation that does not fit.

    pointwise, gather   elementwise, movement, indexing, constants; results of one shape
    reduction           reductions over the same axes of operands of one shape; pointwise before
                        them. After one: elementwise operations; the reduced axes added, removed or
                        broadcast; all elements in another shape. Results are for each element, or
                        for each row
    scan                one scan; pointwise before it, elementwise after
    scatter             one scatter; pointwise before it, elementwise after
    order               values put in the order of the same keys; pointwise before them,
                        elementwise after
    contraction         one matmul; pointwise before it. After it: elementwise and reshape; or, of
                        many rows, both halves of its columns; or a reduction of few neighbours; and
                        what follows of these. Reductions of the matmul's rows, for its left operand
                        and after it. What the kernel says of panels is so
    update              one update of a part of a tensor; pointwise before what is written. The
                        tensor is read for nothing else: the result is the tensor but for that part
    recurrence          one recurrence, pointwise before it
    attention_gradient  one operation of attention's gradient; pointwise before it. After that of
                        queries, or of keys and values: elementwise and reshape. Or the keys and the
                        values apart, and what follows of each
    row_blocks          sums of blocks of rows, of values of one shape. Before and beside them: what
                        a reduction of these rows has, or pointwise operations alone. Nothing after
                        them
    attention           one attention, or parts of one, as it stands; pointwise before it,
                        elementwise and reshape after; beside it the log-sum-exp of its scores

What a kernel says of a matrix unit is so: its product's operands, or attention's queries, keys and
values, are rounded to what the unit multiplies. What it says of maxima and results in place holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.fusion.attention_bodies import (
    ATTENTION_GRADIENT,
    HALVES,
    TOTALS,
    has_totals,
    takes_part,
)
from mgn.dialects.fusion.operand_sources import before_widening, reads_transformed
from mgn.dialects.fusion.product_bodies import (
    keeps_rows,
    may_have_statistics,
    reduces_rows,
)
from mgn.dialects.fusion.product_operations import (
    combines_neighbours,
    is_half,
    moves_before,
    reads_panels,
)
from mgn.dialects.mgn.composite import shape_of
from mgn.dialects.mgn.operation import OPERATIONS, Kind, TensorOp
from mgn.dialects.mgn.operations.elements.masks import PICK
from mgn.dialects.shapes import reduce_shape
from mgn.dialects.stabilising_maximum import MAXIMUM, Step, maxima_only_stabilise
from mgn.dialects.types import element_of

POINTWISE = frozenset({Kind.ELEMENTWISE, Kind.MOVEMENT, Kind.INDEXING, Kind.CONSTANT})

UPDATE, RECURRENCE = "dynamic_update_slice", "recurrence"
COMBINED, IN_PLACE = "combined", "in place"
"""The fact of a scatter that writes its result into the memory of its first operand."""

BLOCK_SUMS = "block_sums"
"""Sums of blocks of rows beside what a kernel does with each row."""

MULTIPLIED: dict[str, int] = dict(zip(ATTENTION_GRADIENT, (2, 4, 4), strict=True))
"""How many operands of what attention's gradient is made of are multiplied."""

WHOLE_COMPOSITES = frozenset({"attention", UPDATE, RECURRENCE, *ATTENTION_GRADIENT})
"""Composites that a template computes as they stand, of which the e-graph makes kernels."""

ATTENTION_PARTS = "attention_parts"
HELD_WHOLE = {
    "attention": ("attention", ATTENTION_PARTS),
    "attention_gradient": ATTENTION_GRADIENT,
    "update": (UPDATE,),
    "recurrence": (RECURRENCE,),
    "row_blocks": (BLOCK_SUMS,),
}
"""Kind of kernel → the composites that its template computes as they stand."""

NOT_EXPANDED = frozenset({PICK, *(name for names in HELD_WHOLE.values() for name in names)})
"""Composites that a template finds in its body."""

MOVED = frozenset({"reshape", "transpose", "slice", "broadcast_to", "windows"})
"""Operations that leave each number as it is."""

Shape = tuple[int, ...]
Operations = Sequence[TensorOp]


@dataclass(frozen=True)
class KernelBody:
    """A kernel as its form is judged: its kind, the operations of its body, the values that it
    writes, and the entries of its `arranged` and of its `schedule`.
    """

    kind: str
    operations: Operations
    written: Sequence[SSAValue]
    arranged: Mapping[str, Attribute]
    schedule: Mapping[str, Attribute]


def verify_form(kernel: KernelBody) -> None:
    """Raises VerifyException where a kernel's body is not of its kind's form."""
    FORMS[kernel.kind](kernel, kernel.operations)
    for entries in (kernel.arranged, kernel.schedule):
        unit = entries.get("matrix")
        if unit is not None:
            name = unit.data if isinstance(unit, StringAttr) else ""
            _verify_unit(kernel, kernel.operations, name)
        if MAXIMUM in entries and not _maxima_stabilise(kernel, kernel.operations):
            _fail(kernel, "its maxima of rows do more than stabilise exponentials")


def _fail(kernel: KernelBody, reason: str) -> None:
    raise VerifyException(f"fusion.kernel {kernel.kind}: {reason}")


def _maxima_stabilise(kernel: KernelBody, operations: Operations) -> bool:
    steps = (Step(op.results[0], op.spec.name, tuple(op.operands)) for op in operations)
    return maxima_only_stabilise(steps, kernel.written)


def _only(kernel: KernelBody, operations: Operations, *heavy: Kind) -> None:
    """All operations are pointwise or of the given kinds; composite ones are elementwise, or the
    kernel's own.
    """
    for op in operations:
        if op.spec.name in HELD_WHOLE.get(kernel.kind, ()):
            continue
        if op.spec.kind not in POINTWISE and op.spec.kind not in heavy:
            _fail(kernel, f"{op.name} cannot be part of it")
        if not op.spec.is_core and op.spec.kind is not Kind.ELEMENTWISE:
            _fail(kernel, f"{op.name} is neither core nor elementwise: decompose it")


def _of_kind(operations: Operations, kind: Kind) -> list[TensorOp]:
    return [op for op in operations if op.spec.kind is kind]


def _the_only(kernel: KernelBody, operations: Operations, kind: Kind) -> TensorOp:
    found = _of_kind(operations, kind)
    if len(found) != 1:
        _fail(kernel, f"needs exactly one {kind} operation, not {len(found)}")
    return found[0]


def _after(operations: Operations, roots: Operations) -> list[TensorOp]:
    """Operations that depend on one of the roots, in order."""
    reached: set[Operation] = set(roots)
    found: list[TensorOp] = []
    for op in operations:
        if op not in reached and any(operand.owner in reached for operand in op.operands):
            reached.add(op)
            found.append(op)
    return found


def _verify_pointwise(kernel: KernelBody, operations: Operations) -> None:
    _only(kernel, operations)
    shapes = {shape_of(value) for value in kernel.written}
    if len(shapes) > 1:
        listing = " and ".join(str(list(shape)) for shape in sorted(shapes))
        _fail(kernel, f"results must have one shape, not {listing}")


def _verify_reduction(kernel: KernelBody, operations: Operations) -> None:
    _only(kernel, operations, Kind.REDUCTION)
    reductions = _of_kind(operations, Kind.REDUCTION)
    if not reductions:
        _fail(kernel, "needs a reduction")
    full = shape_of(reductions[0].operands[0])
    axes = tuple(reductions[0].values["axis"])
    _verify_rows(kernel, operations, full, axes)


def _verify_row_blocks(kernel: KernelBody, operations: Operations) -> None:
    _only(kernel, operations, Kind.REDUCTION)
    sums = [op for op in operations if op.spec.name == BLOCK_SUMS]
    if not sums:
        _fail(kernel, "needs sums of blocks of rows")
    full, values = shape_of(sums[0].operands[0]), sums[0].values
    leading = values["leading"]
    if leading == len(full):
        _fail(kernel, "its rows must have elements")
    if any(shape_of(op.operands[0]) != full or op.values != values for op in sums):
        _fail(kernel, f"sums must be of the same blocks of rows of shape {list(full)}")
    if any(element_of(op.results[0].type).name in HALVES for op in sums):
        _fail(kernel, "what is added up must be as wide as its sums")
    if after := _after(operations, sums):
        _fail(kernel, f"{after[0].name} cannot follow a sum of a block")
    _verify_rows(kernel, operations, full, tuple(range(leading, len(full))))


def _verify_rows(
    kernel: KernelBody, operations: Operations, full: Shape, axes: tuple[int, ...]
) -> None:
    """Reductions are over the axes of that shape, and what follows them keeps rows or elements."""
    reductions = _of_kind(operations, Kind.REDUCTION)
    for op in reductions:
        if shape_of(op.operands[0]) != full or tuple(op.values["axis"]) != axes:
            _fail(kernel, f"{op.name} must reduce axes {list(axes)} of shape {list(full)}")
    spaces = (full, reduce_shape(full, axes, True), reduce_shape(full, axes, False))
    after = _after(operations, reductions)
    for op in after:
        if op.spec.kind is Kind.REDUCTION or op.spec.name == BLOCK_SUMS:
            continue
        if op.spec.kind is not Kind.ELEMENTWISE and op.spec.name not in ("reshape", "broadcast_to"):
            _fail(kernel, f"{op.name} cannot follow a reduction")
        given = [item for item in op.operands if item.owner in (*reductions, *after)]
        reshaped = all(prod(shape_of(item)) == prod(full) for item in (*given, op.results[0]))
        if shape_of(op.results[0]) not in spaces and not reshaped:
            _fail(kernel, f"{op.name} leaves the rows and elements of shape {list(full)}")
    for value in kernel.written:
        if isinstance(value.owner, TensorOp) and value.owner.spec.name == BLOCK_SUMS:
            continue
        if shape_of(value) not in spaces and prod(shape_of(value)) != prod(full):
            _fail(kernel, f"a result of shape {list(shape_of(value))} has no place in {list(full)}")


def _verify_scan(kernel: KernelBody, operations: Operations) -> None:
    _verify_in_shape(kernel, operations, Kind.SCAN)


def _verify_scatter(kernel: KernelBody, operations: Operations) -> None:
    _verify_in_shape(kernel, operations, Kind.SCATTER)
    if kernel.arranged.get(COMBINED) == StringAttr(IN_PLACE):
        _verify_in_place(kernel, _the_only(kernel, operations, Kind.SCATTER))


def _verify_in_shape(kernel: KernelBody, operations: Operations, kind: Kind) -> None:
    """One operation of a kind, and elementwise ones after it; all results have its shape."""
    _only(kernel, operations, kind)
    _verify_after_shape(kernel, operations, _the_only(kernel, operations, kind), kind)


def _verify_order(kernel: KernelBody, operations: Operations) -> None:
    _only(kernel, operations, Kind.ORDER)
    found = _of_kind(operations, Kind.ORDER)
    if not found:
        _fail(kernel, "needs values to put in order")
    for op in found:
        told = [(item.operands[0], *item.operands[2:]) for item in (op, found[0])]
        if told[0] != told[1] or op.values != found[0].values:
            _fail(kernel, f"{op.name} must go by the same keys in the same way")
        rest = [other for other in operations if other not in found]
        _verify_after_shape(kernel, [*rest, op], op, Kind.ORDER)


def _verify_after_shape(
    kernel: KernelBody, operations: Operations, heavy: TensorOp, kind: Kind
) -> None:
    for op in _after(operations, [heavy]):
        if op.spec.kind is not Kind.ELEMENTWISE:
            _fail(kernel, f"{op.name} cannot follow a {kind}")
    for value in kernel.written:
        if shape_of(value) != shape_of(heavy.results[0]):
            _fail(kernel, f"results must have the {kind}'s shape")


def _verify_contraction(kernel: KernelBody, operations: Operations) -> None:
    _only(kernel, operations, Kind.CONTRACTION, Kind.REDUCTION)
    product = _the_only(kernel, operations, Kind.CONTRACTION)
    if _of_kind(_after(operations, [product]), Kind.REDUCTION):
        _verify_pool(kernel, operations, product)
    else:
        _verify_epilogue(kernel, operations, product)
        _verify_statistics(kernel, operations, product)
    if kernel.arranged.get("right") == StringAttr("panels") and not reads_panels(product):
        _fail(kernel, "its right operand must be the reshaped transpose of panels in memory")
    if kernel.arranged.get("right") == StringAttr("transformed") and not reads_transformed(product):
        _fail(kernel, "its right operand must be filters of transformed ones in memory")


def _verify_pool(kernel: KernelBody, operations: Operations, product: TensorOp) -> None:
    """The only reduction combines few neighbours of what follows a product as it lies."""
    pool = _the_only(kernel, operations, Kind.REDUCTION)
    moves = moves_before(pool)
    if not combines_neighbours(product, moves, pool):
        _fail(kernel, f"{pool.name} combines no few neighbours of its matmul's results")
    behind = _after(operations, [pool])
    apart = {pool, *behind, *moves}
    for op in operations:
        if op not in apart and any(item.owner in apart for item in op.operands):
            _fail(kernel, f"{op.name} cannot follow what moves a matmul's results apart")
    rest = [op for op in operations if op not in apart]
    _verify_epilogue(replace(kernel, written=product.results), rest, product)
    _verify_epilogue(kernel, [pool, *behind], pool)


def _verify_statistics(kernel: KernelBody, operations: Operations, product: TensorOp) -> None:
    """Reductions are of the product's rows, and only its left operand and what follows see them."""
    statistics = _of_kind(operations, Kind.REDUCTION)
    if not statistics:
        return
    shape, left, right = map(shape_of, (product.results[0], *product.operands))
    if not may_have_statistics(shape, left, right, product.values):
        _fail(kernel, f"{product.name} of {list(left)} and {list(right)} has no rows to reduce")
    full = shape_of(statistics[0].operands[0])
    for op in statistics:
        if not reduces_rows(shape_of(op.operands[0]), op.values, shape):
            _fail(kernel, f"{op.name} must reduce rows that are the matmul's")
        if shape_of(op.operands[0]) != full:
            _fail(kernel, "reductions must be of rows of one length")
    after = _after(operations, [product])
    rows = {*statistics, *_after(operations, statistics)} - {product, *after}
    if product.operands[1].owner in rows:
        _fail(kernel, "the right operand cannot depend on rows of the left one")
    for op in (*rows.difference(statistics), *after):
        plain = op.spec.kind is Kind.ELEMENTWISE or op.spec.name == "broadcast_to"
        result = shape_of(op.results[0])
        given = [shape_of(value) for value in op.operands if value.owner in rows]
        if not all(keeps_rows(plain, item, result, shape) for item in given):
            _fail(kernel, f"{op.name} leaves the rows of the matmul")


def rounded_by(name: str, element: str, source: str) -> str | None:
    """What an operation rounds to that gives an element type and is given another: bf16, f16 or
    tf32; None where it does not by itself.
    """
    if element in HALVES:
        return element
    if element != "f32":  # no matrix unit adds up other types
        return None
    if name == "round_tf32":
        return "tf32"
    return source if name == "cast" and source in HALVES else None


def keeps_rounding(name: str, values: Mapping[str, Any]) -> bool:
    """Whether an operation gives rounded numbers where it is given such: movement, also with zeros
    around what is moved.
    """
    return name in MOVED or (name == "pad" and values["value"] == 0)


def multiplied_operands(name: str) -> int:
    """How many of its first operands an operation multiplies that a matrix unit may compute."""
    if name in MULTIPLIED:
        return MULTIPLIED[name]
    if name in HELD_WHOLE["attention"]:
        return 3
    return 2 if OPERATIONS[name].kind is Kind.CONTRACTION else 0


def rounded_to(value: SSAValue) -> str | None:
    """What a value is known to be rounded to."""
    element, op = element_of(value.type).name, value.owner
    if not isinstance(op, TensorOp) or not op.operands:
        return element if element in HALVES else None
    rounded = rounded_by(op.spec.name, element, element_of(op.operands[0].type).name)
    if rounded is None and keeps_rounding(op.spec.name, op.values):
        return rounded_to(op.operands[0])
    return rounded


def _verify_unit(kernel: KernelBody, operations: Operations, unit: str) -> None:
    """What the unit is to multiply is rounded to that."""
    given = [
        value for op in operations for value in op.operands[: multiplied_operands(op.spec.name)]
    ]
    if {rounded_to(value) for value in given} != {unit}:
        _fail(kernel, f"what it multiplies is not rounded to {unit or 'its unit'}")


def _verify_attention(kernel: KernelBody, operations: Operations) -> None:
    totals = [op for op in operations if op.spec.name == TOTALS]
    rest = [op for op in operations if op not in totals]
    _only(kernel, rest)
    found = [op for op in rest if op.spec.name in HELD_WHOLE["attention"]]
    if len(found) != 1:
        _fail(kernel, f"needs exactly one attention operation, not {len(found)}")
    for op in totals:
        scored = [[before_widening(value) for value in item.operands] for item in (op, found[0])]
        names = (op.spec.name, found[0].spec.name)
        if not has_totals(names[1], op.values, found[0].values, *scored):
            _fail(kernel, f"{op.name} must be of the scores of its {found[0].name}")
        if op.results[0] not in kernel.written or _after(operations, [op]):
            _fail(kernel, f"{op.name} is written as it is")
    results = [value for value in kernel.written if value.owner not in totals]
    if not results:
        _fail(kernel, "it must write what its attention gives")
    _verify_epilogue(replace(kernel, written=results), rest, found[0])


def _verify_update(kernel: KernelBody, operations: Operations) -> None:
    _only(kernel, operations)
    found = [op for op in operations if op.spec.name == UPDATE]
    if len(found) != 1:
        _fail(kernel, f"needs exactly one {UPDATE}, not {len(found)}")
    _verify_in_place(kernel, found[0])


def _verify_in_place(kernel: KernelBody, update: TensorOp) -> None:
    """Only a part of the operation's first operand is written."""
    whole = update.operands[0]
    if not isinstance(whole, BlockArgument) or len(list(whole.uses)) != 1:
        _fail(kernel, "what it updates must be in memory, and read for nothing else")
    if list(kernel.written) != [update.results[0]]:
        _fail(kernel, "it writes what it updates, and nothing else")


def _verify_attention_gradient(kernel: KernelBody, operations: Operations) -> None:
    """One operation; what follows it as it lies, or of the keys and of the values that it gives."""
    _only(kernel, operations)
    found = [op for op in operations if op.spec.name in HELD_WHOLE[kernel.kind]]
    if len(found) != 1:
        _fail(kernel, f"needs exactly one {kernel.kind}, not {len(found)}")
    (heavy,) = found
    if heavy.spec.name == TOTALS:
        _verify_alone(kernel, operations)
        return
    after = _after(operations, [heavy])
    parts = [op for op in after if op.spec.name == "slice" and op.operands[0] is heavy.results[0]]
    if not parts or heavy.spec.name != ATTENTION_GRADIENT[2]:
        _verify_epilogue(kernel, operations, heavy)
        return
    shape, width = shape_of(heavy.results[0]), shape_of(heavy.operands[1])[-1]
    for op in parts:
        if takes_part(shape, width, op.values) is None:
            _fail(kernel, f"{op.name} takes neither the keys nor the values")
    reached = [_after(operations, [op]) for op in parts]
    owners = {value.owner for value in kernel.written}
    if len({op for ops in reached for op in ops}) < sum(map(len, reached)) or not owners <= {
        *parts,
        *(op for ops in reached for op in ops),
    }:
        _fail(kernel, "every result must be of the keys or of the values")
    for op, following in zip(parts, reached, strict=True):
        own = {op, *following}
        results = [value for value in kernel.written if value.owner in own]
        _verify_epilogue(replace(kernel, written=results), [op, *following], op)


def _verify_alone(kernel: KernelBody, operations: Operations) -> None:
    """One operation that the template computes as it stands, and nothing after it."""
    _only(kernel, operations)
    found = [op for op in operations if op.spec.name in HELD_WHOLE[kernel.kind]]
    if len(found) != 1:
        _fail(kernel, f"needs exactly one {kernel.kind}, not {len(found)}")
    if list(kernel.written) != [found[0].results[0]]:
        _fail(kernel, f"it writes what {found[0].spec.name} gives, and nothing else")


def _verify_epilogue(kernel: KernelBody, operations: Operations, heavy: TensorOp) -> None:
    """What follows the heavy operation keeps its elements in order, and all results follow it."""
    name = heavy.spec.name
    count = prod(shape_of(heavy.results[0]))
    after = _after(operations, [heavy])
    halved: set[Operation] = set()
    for op in after:
        of_half = any(operand.owner in halved for operand in op.operands)
        if op.spec.name == "slice" and not of_half and is_half(op, heavy):
            halved.add(op)
            continue
        if op.spec.kind is not Kind.ELEMENTWISE and op.spec.name != "reshape":
            article = "an" if name.startswith("a") else "a"
            _fail(kernel, f"{op.name} cannot follow {article} {name}")
        if prod(shape_of(op.results[0])) != (count // 2 if of_half else count):
            _fail(kernel, f"{op.name} changes the {name}'s number of elements")
        if of_half:
            halved.add(op)
    owners = {value.owner for value in kernel.written}
    if not owners <= {heavy, *after}:
        _fail(kernel, f"every result must depend on the {name}")
    if halved and not owners <= halved:
        _fail(kernel, f"every result must be of halves of the {name}")


FORMS: dict[str, Callable[[KernelBody, Operations], None]] = {
    "pointwise": _verify_pointwise,
    "gather": _verify_pointwise,
    "reduction": _verify_reduction,
    "scan": _verify_scan,
    "scatter": _verify_scatter,
    "order": _verify_order,
    "contraction": _verify_contraction,
    "attention": _verify_attention,
    "update": _verify_update,
    "attention_gradient": _verify_attention_gradient,
    "recurrence": _verify_alone,
    "row_blocks": _verify_row_blocks,
}
"""The form of each kind."""
