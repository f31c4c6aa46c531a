"""Tests of the dialects: operations and their values, text forms, verifiers, folding."""
