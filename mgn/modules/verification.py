"""Verifies whole operations, with what is declared of each checked once for equal ones.

In: an operation with regions. Out: nothing, or the first error of xDSL's own verifiers.

What an operation's class declares (the types of operands and results, properties, attributes, the
form of its regions) is a matter of those alone: of the thousands of operations of a kernel, most
are like one before. Most of xDSL's `verify_` methods look at nothing else either. Those that may,
traits, and the structure around an operation are checked for each.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from inspect import getclosurevars
from typing import Any

from xdsl.dialects import arith, math, memref, vector
from xdsl.ir import Attribute, ErasedSSAValue, Operation
from xdsl.irdl import IRDLOperation
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import VerifyException

DECLARED_ONLY = frozenset(module.__name__ for module in (arith, math, memref, vector))
"""Modules whose operations' `verify_` looks at nothing but what an operation declares."""


def verify_whole(op: Operation) -> None:
    """Raises xDSL's error where the operation, or one inside it, breaks a rule of its dialect."""
    _Verifier().verify(op)


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
        if any(isinstance(operand, ErasedSSAValue) for operand in op.operands):
            return False
        try:
            for trait in self.traits:
                trait.verify(op)
            if self.own is not None:
                self.own(op)
        except VerifyException:
            return False
        return True


class _Verifier:
    """Remembers what is right. Attributes are told apart by number, equal ones by one."""

    def __init__(self) -> None:
        self._right: set[Hashable] = set()
        self._kinds: dict[type[Operation], _Kind] = {}
        self._numbers: dict[Attribute, int] = {}
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
        if key not in self._right:
            op.verify()
            self._right.add(key)
            return True
        return kind.stands(op)

    def _number(self, attribute: Attribute) -> int:
        """Found by identity where it was seen; it is held, so that no other takes its place."""
        known = self._known.get(id(attribute))
        if known is None:
            number = self._numbers.setdefault(attribute, len(self._numbers))
            known = self._known[id(attribute)] = (attribute, number)
        return known[1]
