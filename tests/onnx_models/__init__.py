"""ONNX models: what becomes of them, and ONNX's own tests."""
