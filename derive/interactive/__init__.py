"""Derivation by hand."""
