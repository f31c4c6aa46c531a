"""Modules before they are compiled: their texts, their checks, and the arrays they are run on."""
