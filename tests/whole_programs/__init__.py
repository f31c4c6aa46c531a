"""Tests of whole programs on a device: against the interpreter, and on hard data."""
