"""Operations that OpenCL has a function for, and the kinds of integer division.

In: an operation's class. Out: the function's name, which OpenCL C and SPIR-V's instruction set
OpenCL.std share: both targets of kernels read these tables.
"""

from xdsl.dialects import arith, math
from xdsl.ir import Operation

from mgn.dialects.kernel.remainder import RemainderOp

ROUNDED_BUILTINS: dict[type[Operation], str] = {
    math.AcosOp: "acos",
    math.AcoshOp: "acosh",
    math.AsinOp: "asin",
    math.AsinhOp: "asinh",
    math.AtanOp: "atan",
    math.Atan2Op: "atan2",
    math.AtanhOp: "atanh",
    math.CbrtOp: "cbrt",
    math.CosOp: "cos",
    math.CoshOp: "cosh",
    math.ErfOp: "erf",
    math.ExpOp: "exp",
    math.Exp2Op: "exp2",
    math.ExpM1Op: "expm1",
    math.FmaOp: "fma",
    math.FPowIOp: "pown",
    math.LogOp: "log",
    math.Log10Op: "log10",
    math.Log1pOp: "log1p",
    math.Log2Op: "log2",
    math.PowFOp: "pow",
    math.RsqrtOp: "rsqrt",
    math.SinOp: "sin",
    math.SinhOp: "sinh",
    math.SqrtOp: "sqrt",
    math.TanOp: "tan",
    math.TanhOp: "tanh",
}
"""Functions whose result is rounded to f16 or bf16."""

EXACT_BUILTINS: dict[type[Operation], str] = {
    arith.MaxnumfOp: "fmax",
    arith.MinnumfOp: "fmin",
    RemainderOp: "fmod",
    math.AbsFOp: "fabs",
    math.CeilOp: "ceil",
    math.CopySignOp: "copysign",
    math.FloorOp: "floor",
    math.RoundOp: "round",
    math.RoundEvenOp: "rint",
    math.TruncOp: "trunc",
    math.CountLeadingZerosOp: "clz",
    math.CtPopOp: "popcount",
}
"""Functions whose result needs no rounding."""

DIVISIONS: dict[type[Operation], tuple[str, bool]] = {
    arith.DivSIOp: ("div", False),
    arith.DivUIOp: ("div", True),
    arith.RemSIOp: ("rem", False),
    arith.RemUIOp: ("rem", True),
    arith.FloorDivSIOp: ("floordiv", False),
    arith.CeilDivSIOp: ("ceildiv", False),
    arith.CeilDivUIOp: ("ceildiv", True),
}
"""What is asked of a quotient, and whether of unsigned numbers. By zero all give 0."""
