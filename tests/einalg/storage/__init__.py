"""Tests of `einalg/storage`."""
