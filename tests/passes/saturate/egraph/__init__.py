"""Tests of the e-graph: layers, wide products, reachability, runaway rules."""
