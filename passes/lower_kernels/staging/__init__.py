"""Copies from global memory to local memory or registers, as a template will read them."""
