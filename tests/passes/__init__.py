"""Tests of the passes, in folders as theirs."""
