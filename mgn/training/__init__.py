"""Training: optimisers, schedules, the step as one graph, and the object that runs it."""
