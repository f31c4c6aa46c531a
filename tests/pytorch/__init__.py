"""Tests of what reads PyTorch's programs; they skip where PyTorch is not installed."""
