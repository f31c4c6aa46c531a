"""Tests of the programs in `examples/`, in sizes that take no time."""
