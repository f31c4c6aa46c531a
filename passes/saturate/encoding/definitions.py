"""What the definition of a value says beyond its type: its operation, and its elements where
constants alone fix them.

In: facts and a handle. Out: an e-node, an array, or nothing. A value has one definition here,
the e-node or leaf that its handle was made for; equal forms that rules found later are not asked.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from xdsl.ir import Block

from mgn.dialects.mgn.interpreter import Interpreter
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.structure import array_of
from mgn.dialects.shapes import element_count
from mgn.passes.saturate.encoding.facts import Facts, Leaf, NodeFact

LARGEST_KNOWN = 1 << 24
"""Elements of the largest value that is computed to be looked at."""


class Origin(IntEnum):
    """What decides a value: nothing but the program, what is set before runs, what a run gets."""

    CONSTANTS = 0
    PARAMETERS = 1
    INPUTS = 2


ORIGINS = {
    "constant": Origin.CONSTANTS,
    "parameter": Origin.PARAMETERS,
    "input": Origin.INPUTS,
    "packed": Origin.INPUTS,
}


@dataclass(frozen=True)
class Definition:
    """A value and the facts it is part of."""

    facts: Facts
    handle: int

    @property
    def node(self) -> NodeFact | None:
        """The e-node that defines the value; None for a leaf."""
        self.facts.looks += 1
        found = self.facts.definitions[self.handle]
        return found if isinstance(found, NodeFact) else None

    @property
    def operands(self) -> "list[Definition]":
        """The definitions of the operands, none for a leaf."""
        node = self.node
        return [] if node is None else [Definition(self.facts, item) for item in node.operands]

    @property
    def array(self) -> np.ndarray | None:
        """The value, where constants alone fix it and it is not too large to look at."""
        self.facts.looks += 1
        known = self.facts.arrays
        if self.handle not in known:
            known[self.handle] = self._computed()
        return known[self.handle]

    @property
    def readers(self) -> int:
        """How many e-nodes of the program read the value."""
        self.facts.looks += 1
        return self.facts.readers[self.handle]

    @property
    def is_given(self) -> bool:
        """Whether the program has the value, and no rule had to make it."""
        self.facts.looks += 1
        return self.handle < self.facts.given

    @property
    def is_constant(self) -> bool:
        """Whether constants alone decide the value."""
        self.facts.looks += 1
        return self._origin <= Origin.CONSTANTS

    @property
    def is_parameters(self) -> bool:
        """Whether parameters and constants alone decide the value."""
        self.facts.looks += 1
        return self._origin <= Origin.PARAMETERS

    @property
    def _origin(self) -> Origin:
        """The least settled of the leaves that the value depends on."""
        known, definitions = self.facts.origins, self.facts.definitions
        pending = [self.handle]
        while pending:
            handle = pending[-1]
            definition = definitions[handle]
            if isinstance(definition, Leaf):
                known[handle] = ORIGINS[definition.kind]
            operands = definition.operands if isinstance(definition, NodeFact) else ()
            waiting = [item for item in operands if item not in known]
            if waiting:
                pending.extend(waiting)
                continue
            origin = max((known[item] for item in operands), default=Origin.CONSTANTS)
            known.setdefault(handle, origin)
            pending.pop()
        return known[self.handle]

    def _computed(self) -> np.ndarray | None:
        definition = self.facts.definitions[self.handle]
        if isinstance(definition, Leaf):
            return array_of(definition.key) if definition.kind == "constant" else None
        type = self.facts.handle_types[self.handle]
        too_large = element_count(type.get_shape()) > LARGEST_KNOWN
        if too_large or self._origin > Origin.CONSTANTS:
            return None
        operands: list[np.ndarray] = []
        for operand in self.operands:
            array = operand.array
            if array is None:
                return None
            operands.append(array)
        return _evaluate(self.facts, definition, type, operands)


def _evaluate(facts: Facts, node: NodeFact, type: Any, operands: list[np.ndarray]) -> np.ndarray:
    block = Block(arg_types=[facts.handle_types[item] for item in node.operands])
    op = OPERATIONS[node.name].op_class.create(
        operands=list(block.args),
        result_types=[type],
        properties=dict(facts.properties.things[node.attributes]),
    )
    return Interpreter().run_op(op, operands)[0]
