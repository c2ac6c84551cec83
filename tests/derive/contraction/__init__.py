"""Tests of `derive/contraction`."""
