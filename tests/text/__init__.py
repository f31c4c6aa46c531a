"""Tests of text: tokens that follow a prompt, and their text."""
