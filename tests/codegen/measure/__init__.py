"""Tests of `codegen/measure`."""
