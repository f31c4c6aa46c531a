"""Kernels that reduce rows, and what other kernels reduce of rows beside."""
