"""Tests of `codegen/targets`."""
