"""Tests of the models in `examples/models/`."""
