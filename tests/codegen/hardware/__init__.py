"""Tests of `codegen/hardware`."""
