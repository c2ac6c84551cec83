"""Tests of `einalg`."""
