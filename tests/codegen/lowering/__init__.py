"""Tests of `codegen/lowering`."""
