"""Tests of `codegen/runtime`."""
