"""Schedules found by measuring: the search, the trials it is made of, and what is kept of it."""
