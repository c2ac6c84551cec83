"""Tests of `einalg/language/notation`."""
