"""Tests of `einalg/language/ops`."""
