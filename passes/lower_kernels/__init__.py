"""`lower-kernels`: a template per kind writes the loops, the body is evaluated at an index."""

from mgn.passes.lower_kernels.lower import LowerKernels, lower_kernel

__all__ = ["LowerKernels", "lower_kernel"]
