"""Tests of `einalg/api`."""
