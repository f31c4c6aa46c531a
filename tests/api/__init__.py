"""Tests of the public calls: modules, the builder, compilation, tuning, and what they refuse."""
