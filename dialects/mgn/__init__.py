"""The `mgn` dialect: operations on whole tensors, pure, with NumPy broadcasting.

Importing it fills `OPERATIONS` and `FOLDERS`; `Mgn` is the dialect to register in an xDSL context.
"""

from xdsl.ir import Dialect

from mgn.dialects.mgn import fold as fold
from mgn.dialects.mgn import gradients as gradients
from mgn.dialects.mgn import operations as operations
from mgn.dialects.mgn.grad import GradOp
from mgn.dialects.mgn.initialiser import InitialiserAttr
from mgn.dialects.mgn.operation import OPERATIONS
from mgn.dialects.mgn.states import ReadStateOp, StateOp, WriteStateOp
from mgn.dialects.mgn.structure import (
    ConstantOp,
    GraphOp,
    MgnConstants,
    ParamOp,
    ReadOp,
    ReturnOp,
)
from mgn.dialects.types import BlockFormatType

Mgn = Dialect(
    "mgn",
    [
        *(GraphOp, ReturnOp, ParamOp, ReadOp, ConstantOp, StateOp, ReadStateOp, WriteStateOp),
        GradOp,
        *(s.op_class for s in OPERATIONS.values()),
    ],
    [BlockFormatType, InitialiserAttr],
    [MgnConstants()],
)
