"""Programs and cases that are timed, and the contestants."""
