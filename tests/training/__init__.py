"""Tests of training: steps, optimisers, schedules, and the trainer."""
