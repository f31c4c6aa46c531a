"""`kernel` dialect in, kernel source out."""
