"""Tests of candidates that write what several kernels would."""
