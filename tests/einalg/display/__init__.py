"""Tests of `einalg/display`."""
