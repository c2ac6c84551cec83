"""Tests of `einalg/testing/equality`."""
