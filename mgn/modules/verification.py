"""Verifies whole operations, with what is declared of each checked once for equal ones.

In: an operation with regions. Out: nothing, or the first error of xDSL's own verifiers.

What an operation's class declares (the types of operands and results, properties, attributes, the
form of its regions) is a matter of those alone: of the thousands of operations of a kernel, most
are like one before. Traits, `verify_` methods and the structure around are checked for each.
"""

import threading
from collections.abc import Callable, Generator, Hashable, Iterable
from contextlib import contextmanager

from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation, OpDef
from xdsl.traits import OpTrait

_one_at_a_time = threading.Lock()


def verify_whole(op: Operation) -> None:
    """Raises xDSL's error where the operation, or one inside it, breaks a rule of its dialect."""
    if not _one_at_a_time.acquire(blocking=False):
        op.verify()
        return
    try:
        with _declarations_remembered(op):
            op.verify()
    finally:
        _one_at_a_time.release()


@contextmanager
def _declarations_remembered(whole: Operation) -> Generator[None]:
    """The definitions of the operations of one remember inside what they have found right."""
    definitions = [
        kind.get_irdl_definition()
        for kind in {type(op) for op in whole.walk()}
        if issubclass(kind, IRDLOperation)
    ]
    remembered = _Remembered()
    for definition in definitions:
        vars(definition)["verify"] = remembered.verifier(definition)
    try:
        yield
    finally:
        for definition in definitions:
            vars(definition).pop("verify", None)


class _Remembered:
    """The declared parts that verified. Attributes are told apart by number, equal ones by one."""

    def __init__(self) -> None:
        self._right: set[Hashable] = set()
        self._numbers: dict[Attribute, int] = {}
        self._known: dict[int, tuple[Attribute, int]] = {}

    def verifier(self, definition: OpDef) -> Callable[[Operation], None]:
        """What `definition.verify` does, skipping what is known to be right."""
        traits = [item for item in definition.traits if type(item).verify is not OpTrait.verify]
        right = self._right

        def verify(op: Operation) -> None:
            key = (definition.name, id(definition), *self._declared(op))
            if key in right:
                for trait in traits:
                    trait.verify(op)
            else:
                OpDef.verify(definition, op)
                right.add(key)

        return verify

    def _declared(self, op: Operation) -> Iterable[Hashable]:
        number = self._number
        yield tuple([number(operand.type) for operand in op.operands])
        yield tuple([number(result.type) for result in op.results])
        yield tuple([(name, number(item)) for name, item in op.properties.items()])
        yield tuple([(name, number(item)) for name, item in op.attributes.items()])
        yield len(op.successors)
        for region in op.regions:
            first = region.blocks.first
            yield len(region.blocks)
            yield () if first is None else tuple([number(item.type) for item in first.args])

    def _number(self, attribute: Attribute) -> int:
        """Found by identity where it was seen; it is held, so that no other takes its place."""
        known = self._known.get(id(attribute))
        if known is None:
            number = self._numbers.setdefault(attribute, len(self._numbers))
            known = self._known[id(attribute)] = (attribute, number)
        return known[1]
