"""Schedules of products and convolutions: how each variant is cut, and its seconds."""
