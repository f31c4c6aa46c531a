"""Tests of the checkout: imports, files, the package, pages and benchmarks."""
