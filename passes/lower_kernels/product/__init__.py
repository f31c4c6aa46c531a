"""Kernels of one product: in tiles, by few rows, from packed panels, and on matrix units."""
