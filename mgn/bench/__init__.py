"""Times a graph beside other libraries, in one run."""
