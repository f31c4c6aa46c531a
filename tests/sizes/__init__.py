"""Tests of dimensions that have a range of sizes."""
