"""Tests of `codegen/libraries`."""
