"""Rules within one scope."""
