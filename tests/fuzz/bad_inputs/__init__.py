"""The fuzzer of bad input: texts and files, mutated, and tests that it finds what is planted."""
