"""How many readers a value has that may each need it.

In: a view. Out: the number of readers of each class, where those that lead to the same count once;
and the classes of which a reduction combines few elements each.

A rule gives a value further readers. Where `add(x, y)` is `sub(x, neg(y))` too, `neg(y)` reads y
besides the sum, but leads to nothing but the sum, and the sum has a form without it. So y has one
reader: what computes the sum for all that read it computes y as well.

In general, let v be a value and s another one to which all of its readers lead: each way from v to
an output goes through s. If s has a form that takes v through one reader, v has one reader.

A gradient is an exception: what a state is left with can be written in the state's place by a
pointwise kernel, which reads the gradient, and not by the product that computes it. So the product
may have its value in memory, as if others read it too.
"""

from collections.abc import Container, Mapping, Sequence
from math import prod

from mgn.dialects.fusion.pooled_bodies import COMBINED_BY, MOST_COMBINED, MOVING_APART
from mgn.dialects.mgn.operation import Kind
from mgn.dialects.shapes import element_count
from mgn.passes.saturate.egraph.view import Signature, View

MOST = 8
"""Values between a value and the one to which its readers lead."""


def readers_of(view: View) -> dict[int, int]:
    """The number of readers of each class, 1 where one of them is enough."""
    classes = view.classes
    place = {key: number for number, key in enumerate(classes)}
    users: dict[int, list[int]] = {key: [] for key in classes}
    for value in classes.values():
        for operand in {item: None for member in value.members for item in member.operands}:
            users[operand].append(value.key)
    found: dict[int, int] = {}
    for key, value in classes.items():
        found[key] = value.users
        if value.users > 1 and value.leaf is None:
            between = _between(view, key, users, place)
            if any(_is_enough(view, key, reader, between) for reader in users[key] if between):
                found[key] = 1
    for key in awaited_by_states(view):
        found[key] = max(found[key], 2)
    return found


def awaited_by_states(view: View) -> set[int]:
    """The values from which elementwise operations alone lead to what a state is left with, of its
    size, and which are no results of such operations themselves.
    """
    found, seen = set[int](), set[int]()
    pending = [key for key, before in view.found.items() if before is not None]
    while pending:
        key = pending.pop()
        value = view.classes[key]
        if key in seen or value.leaf is not None:
            continue
        seen.add(key)
        if not _is_elementwise(view, key):
            if key not in view.found:
                found.add(key)
            continue
        operands = {item: None for member in value.members for item in member.operands}
        pending += [item for item in operands if _count(view, item) == _count(view, key)]
    return found


def _between(
    view: View, key: int, users: Mapping[int, Sequence[int]], place: Mapping[int, int]
) -> list[int]:
    """What lies on the ways from a class to the one to which all of them lead, in order, that one
    last; nothing where that is far, or where values of another size or no elementwise ones lie
    there. Where all readers are products, the size is that of the first.
    """
    waiting, between = set(users[key]), list[int]()
    products = all(_is_product(view, item) for item in waiting)
    size = _count(view, min(waiting, key=place.__getitem__) if products else key)
    while len(between) < MOST:
        first = min(waiting, key=place.__getitem__)
        between.append(first)
        waiting.remove(first)
        if not waiting:
            return between
        value = view.classes[first]
        kept = _is_elementwise(view, first) or (products and _is_product(view, first))
        if value.is_output or _count(view, first) != size or not kept:
            return []
        waiting.update(users[first])
    return []


def _count(view: View, key: int) -> int:
    return element_count(view.classes[key].type.get_shape())


def _is_elementwise(view: View, key: int) -> bool:
    """Whether a value has its operands' elements in their order."""
    signatures = [view.signatures[item.signature] for item in view.classes[key].members]
    return all(item.kind is Kind.ELEMENTWISE or item.name == "reshape" for item in signatures)


def _is_product(view: View, key: int) -> bool:
    members = view.classes[key].members
    return all(view.signatures[item.signature].kind is Kind.CONTRACTION for item in members)


def _is_enough(view: View, key: int, reader: int, between: Sequence[int]) -> bool:
    """Whether the last of the values between has a form that takes a class through one reader."""
    made = set[int]()

    def is_there(operand: int, user: int, within: Container[int]) -> bool:
        if operand == key:
            return user == reader
        return operand in made or operand not in within

    within = frozenset(between)
    for item in between:
        members = view.classes[item].members
        if any(all(is_there(o, item, within) for o in member.operands) for member in members):
            made.add(item)
    return between[-1] in made


def classes_pooled(view: View) -> set[int]:
    """The classes of which a reduction combines few elements each, as they lie or through movement.

    A product may go on in the kernel of such a reduction, through these classes alone. Elsewhere
    results that are moved apart are no part of its kernel, and need not be tried.
    """
    found = set[int]()
    for value in reversed(view.classes.values()):
        for member in value.members:
            signature = view.signatures[member.signature]
            moves = signature.name in MOVING_APART and value.key in found
            if moves or _combines_few(signature):
                found.update(member.operands)
    return found


def _combines_few(signature: Signature) -> bool:
    """Whether an operation combines a few elements each."""
    if signature.kind is not Kind.REDUCTION or signature.name not in COMBINED_BY:
        return False
    shape = signature.operand_shapes[0]
    return prod(shape[axis] for axis in signature.values["axis"]) <= MOST_COMBINED
