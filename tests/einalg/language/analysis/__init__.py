"""Tests of `einalg/language/analysis`."""
