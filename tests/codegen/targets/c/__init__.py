"""Tests of `codegen/targets/c`."""
