"""Tests of schedules: which are chosen, and the blocks of products."""
