"""Tests of checkpoints: what wrote them, under which names, of which types."""
