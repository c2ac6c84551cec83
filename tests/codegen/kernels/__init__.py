"""Tests of `codegen/kernels`."""
