"""Tests of `derive/interactive`."""
