"""Tests of `derive/substitutions`."""
