"""Horizontal fusion: candidates that write what several kernels would write side by side."""
