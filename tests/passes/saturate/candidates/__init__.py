"""Tests of the kernels that are offered to extraction."""
