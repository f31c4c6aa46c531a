"""What every template writes with: pure operations, loops, and elements of a body at an index."""
