"""A view of one size narrowed to the operations that were chosen at another.

In: a view, and the operations by which a choice for a graph of the same structure computes its
values. Out: the view with these alone.

A value of the program may be computed there by an operation which is not to be had here, as the
product with a reciprocal that is exact for powers of two. It keeps all its operations.

That assumes that the operations which cost least at one size do so at another. It does not hold of
heavy operations: how many rows there are decides which way a weight is to lie, whether rows are
scaled before a product or after it, and whether heads are moved before an attention. So a class
also keeps its e-nodes that are heavy, or read such. What these read has to be there, or be computed
from that by one operation, or from parameters alone.
"""

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import islice, product

from mgn.passes.saturate.egraph.view import Member, ValueClass, View
from mgn.passes.saturate.sharing.chosen import NONE, ChosenOperations, operation_row
from mgn.passes.saturate.sharing.names import leaf_name

MOST_WAYS = 64
"""Names that are tried for an operation whose operands have several each."""


def narrowed(view: View, chosen: ChosenOperations) -> View:
    """The view with the chosen operations of each class, and the classes that outputs need."""
    leaves, named, given = dict(chosen.leaves), chosen.named, _given(view, chosen)
    names: dict[int, Sequence[int]] = {}
    kept: dict[int, list[Member]] = {}
    for key, value in view.classes.items():
        found = dict.fromkeys(given.get(key, ()))
        if value.leaf is not None and (name := leaves.get(leaf_name(value.leaf))) is not None:
            found[name] = None
        kept[key] = []
        for item in value.members:
            signature = view.signatures[item.signature]
            ways = islice(product(*[names[operand] for operand in item.operands]), MOST_WAYS)
            results = [named.get(operation_row(signature, way), NONE) for way in ways]
            computed = [result for result in results if result != NONE]
            if computed:
                kept[key].append(item)
                found.update(dict.fromkeys(computed))
        names[key] = tuple(found)
        if not kept[key]:
            kept[key] = value.members
    _keep_heavy(view, kept, _reached(view, kept))
    return replace(view, classes=_needed(view, kept))


def _keep_heavy(view: View, kept: dict[int, list[Member]], there: Container[int]) -> None:
    """Keeps of the classes that are `there` the heavy operations, and what reads one, that need no
    more than one operation besides.
    """
    classes = view.classes

    def is_at_hand(key: int) -> bool:
        return key in there or classes[key].leaf is not None or classes[key].prepared

    def is_heavy(item: Member) -> bool:
        return view.signatures[item.signature].heavy is not None

    direct: dict[int, list[Member]] = {}
    for key in [key for key in classes if key in there and not classes[key].prepared]:
        more = [item for item in classes[key].members if item not in kept[key]]
        for item in more:
            fresh = [operand for operand in item.operands if not is_at_hand(operand)]
            for operand in fresh:
                if operand not in direct:
                    members = classes[operand].members
                    direct[operand] = [one for one in members if all(map(is_at_hand, one.operands))]
            computed = [one for operand in fresh for one in direct[operand]]
            if any(map(is_heavy, [item, *computed])) and all(direct[operand] for operand in fresh):
                kept[key] = [*kept[key], item]
                kept.update((operand, direct[operand]) for operand in fresh)


def _given(view: View, chosen: ChosenOperations) -> Mapping[int, Sequence[int]]:
    """The names of classes that are values of the program."""
    found: dict[int, list[int]] = defaultdict(list)
    if len(view.values) == len(chosen.values):
        for key, name in zip(view.values, chosen.values, strict=True):
            if name != NONE:
                found[key].append(name)
    return found


def _needed(view: View, kept: Mapping[int, list[Member]]) -> dict[int, ValueClass]:
    """The classes that outputs need, with the e-nodes kept, in their order."""
    needed = _reached(view, kept)
    classes = {
        key: replace(value, members=list(kept[key]), users=0)
        for key, value in view.classes.items()
        if key in needed
    }
    for value in classes.values():
        for operand in {item for member in value.members for item in member.operands}:
            classes[operand].users += 1
    return classes


def _reached(view: View, kept: Mapping[int, list[Member]]) -> set[int]:
    """The keys of the classes that outputs need, by the e-nodes kept."""
    reached, pending = set(view.outputs), list(view.outputs)
    while pending:
        for item in kept[pending.pop()]:
            fresh = [operand for operand in item.operands if operand not in reached]
            reached.update(fresh)
            pending += fresh
    return reached
