"""Kernels of attention: by rows on CPUs, in tiles on GPUs, and on matrix units."""
