"""Examples, programs and trials that tests of rules share."""
