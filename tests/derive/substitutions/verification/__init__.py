"""Tests of `derive/substitutions/verification`."""
