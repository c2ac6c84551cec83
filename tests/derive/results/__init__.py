"""Tests of `derive/results`."""
