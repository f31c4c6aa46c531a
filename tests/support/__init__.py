"""What tests of several folders share: devices, guard zones, kernels built together."""
