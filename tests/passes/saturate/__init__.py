"""Tests of `saturate`: whole programs, random graphs, devices, scale and time."""
