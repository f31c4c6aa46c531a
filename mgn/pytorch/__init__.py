"""mgn as a backend of `torch.compile`."""
