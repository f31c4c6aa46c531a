"""The `mgn` dialect: operations on whole tensors, pure, with NumPy broadcasting.

Importing it fills `OPERATIONS` and `FOLDERS`; `Mgn` is the dialect to register in an xDSL context.
"""

from xdsl.ir import Dialect

from mgn.dialects.mgn import activations as activations
from mgn.dialects.mgn import attention as attention
from mgn.dialects.mgn import contraction as contraction
from mgn.dialects.mgn import einsum as einsum
from mgn.dialects.mgn import elementwise as elementwise
from mgn.dialects.mgn import fold as fold
from mgn.dialects.mgn import indexing as indexing
from mgn.dialects.mgn import losses as losses
from mgn.dialects.mgn import masks as masks
from mgn.dialects.mgn import movement as movement
from mgn.dialects.mgn import normalisation as normalisation
from mgn.dialects.mgn import rearrangement as rearrangement
from mgn.dialects.mgn import reductions as reductions
from mgn.dialects.mgn import rope as rope
from mgn.dialects.mgn import statistics as statistics
from mgn.dialects.mgn.initialiser import InitialiserAttr
from mgn.dialects.mgn.operation import OPERATIONS
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
    [GraphOp, ReturnOp, ParamOp, ReadOp, ConstantOp, *(s.op_class for s in OPERATIONS.values())],
    [BlockFormatType, InitialiserAttr],
    [MgnConstants()],
)
