"""The fuzzers: random programs and bad input, and tests that they find what is planted."""
