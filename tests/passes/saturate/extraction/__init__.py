"""Tests of the choice of kernels: cost, bounds, components."""
