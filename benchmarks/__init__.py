"""Benchmarks: `python -m benchmarks` prints kernels with their share of the device's ceiling."""
