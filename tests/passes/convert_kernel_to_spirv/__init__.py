"""Tests of kernels as SPIR-V, beside the OpenCL C of the same kernels."""
