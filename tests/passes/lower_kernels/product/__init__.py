"""Tests of product kernels: tiles, layouts, edges, matrix units, few rows."""
