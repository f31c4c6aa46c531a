"""Tests of gradients: against differences, at corners, of whole programs."""
