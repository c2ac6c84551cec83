"""Proof by comparison of access relations (design §9)."""
