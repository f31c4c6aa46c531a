"""Training by several ranks, started by `mpiexec`."""
