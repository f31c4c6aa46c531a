"""Tests of what editors use: the formatter, the language server, the grammar for colours."""
