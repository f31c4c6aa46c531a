"""Plugins: loaded by all commands and calls, and found by `xdsl-opt`."""
