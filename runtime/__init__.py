"""Devices, buffers and launches: the only importer of pyopencl."""
