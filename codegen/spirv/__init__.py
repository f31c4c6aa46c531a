"""Kernels as SPIR-V."""
