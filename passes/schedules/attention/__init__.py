"""Schedules of attention and its gradient: blocks of a CPU, tiles of a GPU, and their seconds."""
