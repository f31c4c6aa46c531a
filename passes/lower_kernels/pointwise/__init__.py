"""Kernels that compute each element by itself, and those that move elements."""
