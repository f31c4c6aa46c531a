"""A graph as facts of the e-graph: values, their kinds, what is defined, which layers repeat."""
