"""Optimisers and learning rates, in the language's terms."""
