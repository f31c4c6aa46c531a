"""The main work of each command, after its arguments are read."""
