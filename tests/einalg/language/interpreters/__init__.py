"""Tests of `einalg/language/interpreters`."""
