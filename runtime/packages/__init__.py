"""Packages: compiled programs in one file, written, read and run without the compiler."""
