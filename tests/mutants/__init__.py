"""Mutants of the rule table, made and tried by `python -m tests.mutants`."""
