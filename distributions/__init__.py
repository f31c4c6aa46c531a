"""Distributions that are made of a part of the tree."""
