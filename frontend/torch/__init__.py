"""PyTorch to mgn: FX graphs of ATen operators become graphs of the `mgn` dialect."""
