"""Tests of `derive/bilinear`."""
