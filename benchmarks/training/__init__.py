"""Training beside PyTorch: the cases, their peers, loss curves and times of steps."""
