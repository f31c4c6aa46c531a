"""Schedules of reductions: groups of a GPU, walks of a CPU, and windows."""
