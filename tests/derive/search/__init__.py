"""Tests of `derive/search`."""
