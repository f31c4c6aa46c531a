"""Tests of rules: every row tried, wrong rows refused, spellings recognised."""
