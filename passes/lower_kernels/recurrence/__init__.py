"""Recurrences: time loops in one kernel."""
