"""Tests of `derive/rules`."""
