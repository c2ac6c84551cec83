"""Tests of `derive/search/starts`."""
