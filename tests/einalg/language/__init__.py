"""Tests of `einalg/language`."""
