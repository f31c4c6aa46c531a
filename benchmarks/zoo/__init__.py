"""The models of `examples/models/` beside those of torchvision and transformers."""
