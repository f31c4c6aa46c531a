"""The training step of a graph as one graph or two, and what a step may add."""
