"""Tests of the kernels that attention's gradient is made of."""
