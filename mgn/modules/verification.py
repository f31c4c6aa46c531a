"""Verifies whole operations, with what is declared of each checked once for equal ones.

In: an operation with regions. Out: nothing, or the first error of xDSL's own verifiers.

What an operation's class declares (the types of operands and results, properties, attributes, the
form of its regions) is a matter of those alone: of the thousands of operations of a kernel, most
are like one before. Most of xDSL's `verify_` methods look at nothing else either. Those that may,
traits, and the structure around an operation are checked for each.
"""

import itertools
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from inspect import getclosurevars
from typing import Any

from xdsl.dialects import arith, math, memref, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute, ErasedSSAValue, Operation
from xdsl.irdl import IRDLOperation
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

DECLARED_ONLY = frozenset(module.__name__ for module in (arith, math, memref, vector))
"""Modules whose operations' `verify_` looks at nothing but what an operation declares."""


MOST_KNOWN = 20_000
"""Of how many unequal operations it is remembered, from module to module, that they are right."""


def verify_whole(op: Operation) -> None:
    """Raises xDSL's error where the operation, or one inside it, breaks a rule of its dialect."""
    try:
        _Verifier().verify(op)
    finally:
        _remembered.bound()


@dataclass(frozen=True)
class _Kind:
    """What is checked of each operation of a class."""

    traits: tuple[OpTrait, ...]
    own: Callable[[Any], None] | None

    @staticmethod
    def of(kind: type[IRDLOperation]) -> "_Kind":
        traits = kind.get_irdl_definition().traits
        own = getclosurevars(kind.verify_).nonlocals["custom_verify"]
        alone = own is Operation.verify_ or kind.__module__ in DECLARED_ONLY
        verified = tuple(item for item in traits if type(item).verify is not OpTrait.verify)
        return _Kind(verified, None if alone else own)

    def stands(self, op: Operation) -> bool:
        """Whether an operation whose declaration is right is right where it stands."""
        for operand in op.operands:
            if isinstance(operand, ErasedSSAValue):
                return False
        try:
            for trait in self.traits:
                trait.verify(op)
            if self.own is not None:
                self.own(op)
        except VerifyException:
            return False
        return True


class _Remembered(threading.local):
    """What was right in the modules before, for each thread. Attributes are told apart by number,
    equal ones by one. Arrays are not kept, since they may be large.
    """

    def __init__(self) -> None:
        self.kinds: dict[type[Operation], _Kind] = {}
        self.new_number = itertools.count().__next__
        self.clear()

    def clear(self) -> None:
        self.right: set[Hashable] = set()
        self.numbers: dict[Attribute, int] = {}

    def bound(self) -> None:
        """Forgets all where a module has left more than is remembered."""
        if max(len(self.right), len(self.numbers)) > MOST_KNOWN:
            self.clear()


_remembered = _Remembered()


class _Verifier:
    """Checks an operation with all that is in it, and remembers what is right."""

    def __init__(self) -> None:
        self._kinds = _remembered.kinds
        self._new_number = _remembered.new_number
        self._right, self._right_here = _remembered.right, set[Hashable]()
        self._numbers, self._arrays = _remembered.numbers, dict[Attribute, int]()
        self._known: dict[int, tuple[Attribute, int]] = {}

    def verify(self, op: Operation) -> None:
        """What `op.verify()` does, with regions before the operation, as there."""
        for region in op.regions:
            for block in region.blocks:
                for inner in block.ops:
                    if inner.parent is not block:
                        raise VerifyException(f"{inner.name} does not name the block around it")
                    self.verify(inner)
                if block.is_empty:
                    block.verify()
        simple = not op.regions and not op.successors and op.next_op is not None
        if not simple or not isinstance(op, IRDLOperation) or not self._is_known(op):
            op.verify(verify_nested_ops=False)

    def _is_known(self, op: IRDLOperation) -> bool:
        """Whether an equal one was right, and what is around this one is right, too."""
        kind = self._kinds.get(type(op))
        if kind is None:
            kind = self._kinds[type(op)] = _Kind.of(type(op))
        number = self._number
        key = (
            type(op),
            tuple([number(operand.type) for operand in op.operands]),
            tuple([number(result.type) for result in op.results]),
            tuple([(name, number(item)) for name, item in op.properties.items()]),
            tuple([(name, number(item)) for name, item in op.attributes.items()]),
        )
        if key not in self._right and key not in self._right_here:
            op.verify()
            attributes = (*op.properties.values(), *op.attributes.values())
            (self._right_here if any(map(_is_array, attributes)) else self._right).add(key)
            return True
        return kind.stands(op)

    def _number(self, attribute: Attribute) -> int:
        """Found by identity where it was seen; it is held, so that no other takes its place."""
        known = self._known.get(id(attribute))
        if known is None:
            numbers = self._arrays if _is_array(attribute) else self._numbers
            number = numbers.get(attribute)
            if number is None:
                number = numbers[attribute] = self._new_number()
            known = self._known[id(attribute)] = (attribute, number)
        return known[1]


def _is_array(attribute: Attribute) -> bool:
    return isinstance(attribute, DenseIntOrFPElementsAttr)
