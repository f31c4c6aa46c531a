"""What was chosen and what was not, in words and figures."""
