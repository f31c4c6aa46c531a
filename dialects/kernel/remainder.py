"""The remainder of floats, which this version of upstream `arith` lacks."""

from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, VectorType
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from mgn.dialects.kernel.types import verify_vector


@irdl_op_definition
class RemainderOp(IRDLOperation):
    """The exact remainder of a division that truncates, with the dividend's sign, as C's `fmod`.

    ```
    %r = kernel.remf %a, %b : vector<4xf32>
    ```
    Error: operands that are not floats.
    """

    name = "kernel.remf"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    traits = traits_def(Pure())
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"

    def __init__(self, lhs: SSAValue | Operation, rhs: SSAValue | Operation):
        lhs = SSAValue.get(lhs)
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        type = self.result.type
        verify_vector(type, "the result")
        if not isinstance(type.element_type if isinstance(type, VectorType) else type, AnyFloat):
            raise VerifyException(f"kernel.remf divides floats, not {type}")
