"""Tests of `codegen/ir`."""
