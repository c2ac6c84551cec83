"""Tests of `einalg/language/analysis/ranges`."""
