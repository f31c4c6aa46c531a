"""What operations with `check = true` ask of their operands: that class ids are classes.

In: an operation. Out: the ids, and what they may be. The interpreter fails a run by it, and the
pass `raise-checks` has the device count what is wrong.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from mgn.dialects.mgn.attributes import BOOL
from mgn.dialects.mgn.composite import element_type_of, shape_of
from mgn.dialects.mgn.operation import AttributeSpec, TensorOp

CHECK = AttributeSpec("check", BOOL, False)
"""Whether ids outside the classes fail a run, and are not clamped."""

LABELS = 1
"""Which operand of the operations that have the attribute holds the ids."""


@dataclass(frozen=True)
class Checked:
    """Ids that have to lie from 0 to below `classes`, or be the one that is ignored."""

    ids: SSAValue
    classes: int
    ignored: int | None
    message: str

    def wrong(self, ids: np.ndarray) -> int:
        """How many of them do not."""
        wrong = (ids < 0) | (ids >= self.classes)
        return int(np.sum(wrong if self.ignored is None else wrong & (ids != self.ignored)))


def checked_ids(op: Operation) -> Checked | None:
    """What an operation is asked to check; None where it is nothing."""
    if not isinstance(op, TensorOp) or CHECK not in op.spec.attributes or not op.values["check"]:
        return None
    ids, classes = op.operands[LABELS], shape_of(op.operands[0])[-1]
    ignored = op.values["ignore_index"]
    dtype = element_type_of(ids).dtype
    assert dtype is not None
    limits = np.iinfo(dtype)
    if ignored is not None and not limits.min <= ignored <= limits.max:
        ignored = None
    has = f"{op.spec.name}() has ids that are none of its {classes} classes"
    return Checked(ids, classes, ignored, has)
