"""Tests of `derive/matching`."""
