"""Proof by random evaluation (design §9)."""
