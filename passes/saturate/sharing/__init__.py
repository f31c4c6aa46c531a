"""A choice of kernels at one size of a graph, as what other sizes are searched by."""
