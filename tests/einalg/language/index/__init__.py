"""Tests of `einalg/language/index`."""
