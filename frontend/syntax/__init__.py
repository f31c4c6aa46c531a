"""Text to syntax tree: files, tokens and the grammar."""
