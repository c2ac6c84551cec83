"""Tests of `derive/substitutions/graphs`."""
