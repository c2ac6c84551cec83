"""Tests of `einalg/language/ir`."""
