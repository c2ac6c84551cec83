"""Tests of `helpers/operators`."""
