"""Tests of lowered kernels: every template against the interpreter."""
