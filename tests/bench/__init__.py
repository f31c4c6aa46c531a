"""`mgn-bench`, and how other libraries compute a graph."""
