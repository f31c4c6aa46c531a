"""`lower-kernels`: a template per kind writes the loops, the body is evaluated at an index."""
