"""The passes, one file or folder each, in the order in which the pipeline runs them."""
