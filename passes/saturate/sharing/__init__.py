"""Choices of kernels shared by graphs that differ in sizes alone."""
