"""ONNX models in, `mgn` dialect out."""
