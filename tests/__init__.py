"""The tests, in folders as the code's, the fuzzers and the commands that renew tables."""
