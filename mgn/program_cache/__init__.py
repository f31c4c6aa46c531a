"""Compiled graphs on disk: their keys, the form in which they are kept, and what finds them."""
