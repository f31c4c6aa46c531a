"""The kernels that extraction may choose from."""
