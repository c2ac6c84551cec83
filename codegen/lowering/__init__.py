"""Scopes as loop nests."""
