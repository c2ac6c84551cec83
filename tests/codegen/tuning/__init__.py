"""Tests of `codegen/tuning`."""
