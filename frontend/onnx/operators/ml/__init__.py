"""Operators of the domain ai.onnx.ml: what libraries of classical machine learning export."""
