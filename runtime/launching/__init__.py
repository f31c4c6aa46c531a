"""A plan on a device: kernels built, arguments bound, launches recorded and run."""
