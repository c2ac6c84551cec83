"""Contractions in tiles of registers and panels."""
