"""Several processes that work together by MPI. Extra: `distributed`."""
