"""Tests of `derive/substitutions/files`."""
