"""Checkpoints of models, whatever wrote them, as values of a graph's parameters."""
