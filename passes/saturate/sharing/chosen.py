"""The operations by which a choice of kernels computes its values, in names of any size.

In: a view and the kernels chosen. Out: `ChosenOperations`.

A name of a value is a number that stands for what computes it: an operation without its sizes, and
the names of its operands. Two values that differ in sizes alone have one name, and each may then
keep what the other is computed by.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from mgn.passes.saturate.candidates.candidates import Candidate
from mgn.passes.saturate.egraph.view import Member, Signature, View
from mgn.passes.saturate.sharing.names import leaf_name, operation_name

DEEP = 8
"""How far below a value the operations are looked for that an arrangement does in its place."""

NONE = -1
"""In the place of a name: a value that no kernel chosen computes or reads."""

Row = tuple[str, tuple[int, ...], int]
"""An operation without its sizes, the names of its operands, and that of what it computes."""


@dataclass(frozen=True)
class Source:
    """A graph that kernels were chosen for. `structure` is that of the graph, `sizes` are those of
    its inputs; `rules` acted there; `turned` says that images lie with their channels last.
    """

    structure: str
    sizes: str
    rules: tuple[str, ...]
    turned: bool


@dataclass(frozen=True)
class ChosenOperations:
    """What values of a choice are computed by. `values` are the names of the program's values, in
    their order, `NONE` where none was computed.
    """

    source: Source
    rows: tuple[Row, ...]
    leaves: tuple[tuple[str, int], ...]
    values: tuple[int, ...]

    @cached_property
    def named(self) -> Mapping[tuple[str, tuple[int, ...]], int]:
        """The name of what an operation computes."""
        return {(operation, operands): name for operation, operands, name in self.rows}


def chosen_operations(
    source: Source, view: View, chosen: Iterable[Candidate], handed: frozenset[int]
) -> ChosenOperations:
    """What kernels compute their values by; `handed` are the classes that those of arrangements
    hand to each other, which are in no other view.
    """
    kept = _Kept(view, handed)
    for candidate in chosen:
        for key, signature, operands in candidate.body:
            if key not in handed:
                kept.note(key, Member(signature, operands))
    rows: dict[tuple[str, tuple[int, ...]], int] = {}
    leaves: dict[str, int] = {}
    names: dict[int, int] = {}
    count = 0
    for key, value in view.classes.items():
        if value.leaf is not None:
            names[key] = leaves.setdefault(leaf_name(value.leaf), count)
            count += 1
            continue
        items = [
            operation_row(view.signatures[item.signature], [names[n] for n in item.operands])
            for item in kept.members.get(key, ())
        ]
        if items:
            known = [rows[item] for item in items if item in rows]
            names[key] = min(known, default=count)
            count += 1
            for item in items:
                rows.setdefault(item, names[key])
    return ChosenOperations(
        source,
        tuple([(*item, name) for item, name in rows.items()]),
        tuple(leaves.items()),
        tuple([names.get(key, NONE) for key in view.values]),
    )


def operation_row(signature: Signature, operands: Sequence[int]) -> tuple[str, tuple[int, ...]]:
    """An operation without its sizes, and the names of its operands, in no order where that does
    not count.
    """
    ordered = sorted(operands) if signature.spec.commutative else operands
    return operation_name(signature), tuple(ordered)


class _Kept:
    """The e-nodes of classes that a choice computes them by."""

    def __init__(self, view: View, handed: frozenset[int]) -> None:
        self.view, self.handed = view, handed
        self.members: dict[int, list[Member]] = {}

    def note(self, key: int, member: Member) -> None:
        """Keeps an e-node, or where an arrangement made it those that it stands for."""
        if self.handed.isdisjoint(member.operands):
            self._keep(key, member)
            return
        read = self._made_from(member.operands)
        if not self._between(key, read, {}, DEEP):
            self._keep_all(key)

    def _keep(self, key: int, member: Member) -> None:
        known = self.members.setdefault(key, [])
        if member not in known:
            known.append(member)

    def _own(self, key: int) -> Sequence[Member]:
        """The e-nodes of a class that no arrangement made."""
        return [
            item for item in self.view.classes[key].members if self.handed.isdisjoint(item.operands)
        ]

    def _made_from(self, keys: Iterable[int]) -> set[int]:
        """The classes that values handed on are made from; others are themselves."""
        found: set[int] = set()
        pending = list(keys)
        while pending:
            key = pending.pop()
            if key in self.handed:
                pending += self.view.classes[key].members[0].operands
            else:
                found.add(key)
        return found

    def _between(self, key: int, read: set[int], known: dict[int, bool], deep: int) -> bool:
        """Keeps the e-nodes by which a class is computed from those read; whether there are any."""
        if key in known:
            return known[key]
        known[key] = False
        for item in self._own(key) if deep else ():
            inner = [operand for operand in item.operands if not self._is_read(operand, read)]
            if all(self._between(operand, read, known, deep - 1) for operand in inner):
                self._keep(key, item)
                known[key] = True
        return known[key]

    def _is_read(self, key: int, read: set[int]) -> bool:
        return key in read or self.view.classes[key].inline

    def _keep_all(self, key: int) -> None:
        """Keeps all e-nodes of a class, and of what they read and nothing chosen computes."""
        pending = [key]
        met = {key}
        while pending:
            key = pending.pop()
            for item in self._own(key):
                self._keep(key, item)
                fresh = [
                    operand
                    for operand in item.operands
                    if operand not in met and self.view.classes[operand].leaf is None
                ]
                met.update(fresh)
                pending += fresh
