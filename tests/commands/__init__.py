"""Tests of `mgn-opt` and `mgn-run`: streams, files, exit statuses, and FileCheck."""
