"""Tests of `derive/proof`."""
