"""Tests of `einalg/testing`."""
