"""Tests of the language: values, errors, the contract's calls, and printing."""
