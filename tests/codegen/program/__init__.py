"""Tests of `codegen/program`."""
