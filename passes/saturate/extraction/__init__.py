"""The choice of kernels with the least cost, and a bound that proves it."""
