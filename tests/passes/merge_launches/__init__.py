"""Tests of what becomes one launch, and where its barriers stand."""
