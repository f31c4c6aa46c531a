"""A training run: its loop, its record and its checkpoints."""
