"""Tests of `einalg/runtime`."""
