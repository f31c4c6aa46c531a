"""Tests of the runtime: devices, launches, caches, weights and packages."""
