"""Tests of `derive/rewriting`."""
