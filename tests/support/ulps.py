"""How far OpenCL lets a device's functions be off: the one table that tests of devices read.

In: a function's name in OpenCL C. Out: units in the last place, in f32 and f64 alike. A reference
that NumPy computes is off by one more.
"""

FUNCTION_ULPS: dict[str, float] = {
    "acos": 4, "acosh": 4, "asin": 4, "asinh": 4, "atan": 5, "atan2": 6, "atanh": 5, "cbrt": 2,
    "cos": 4, "cosh": 4, "erf": 16, "exp": 3, "exp2": 3, "expm1": 3, "fma": 0, "log": 3,
    "log10": 3, "log1p": 2, "log2": 3, "pow": 16, "pown": 16, "rsqrt": 2, "sin": 4, "sinh": 4,
    "sqrt": 3, "tan": 5, "tanh": 5,
}  # fmt: skip
"""OpenCL C 3.0, section 7.4, full profile. The root is correctly rounded in f64; a program says
with an option that it is in f32 too.
"""
