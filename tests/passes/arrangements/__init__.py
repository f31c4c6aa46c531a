"""Tests of arrangements: operands copied, packed and rounded, and kernels cut in two."""
