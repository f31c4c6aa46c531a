"""Tests of reduction kernels: long rows, long sums, columns, rows ahead."""
