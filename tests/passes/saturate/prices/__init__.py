"""Tests of prices, beside kernels that were measured on devices."""
