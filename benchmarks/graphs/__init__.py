"""Graphs that the e-graph's benchmarks decide."""
