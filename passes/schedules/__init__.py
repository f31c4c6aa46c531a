"""Schedules: which variant of a template writes a kernel, and its tiles, chosen for a device."""
