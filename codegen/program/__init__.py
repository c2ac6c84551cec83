"""Whole programs: built, shared, fused, run."""
