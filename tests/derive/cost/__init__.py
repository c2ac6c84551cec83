"""Tests of `derive/cost`."""
