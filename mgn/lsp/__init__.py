"""What editors ask of the language: a language server, and what it knows of a text."""
