"""Derivation by hand in Jupyter."""
