"""Tests of OpenCL C and of SPIR-V words, with a case for each row of arithmetic."""
