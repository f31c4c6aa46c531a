"""Tests of attention kernels: edges, masks, hidden keys, matrix units."""
